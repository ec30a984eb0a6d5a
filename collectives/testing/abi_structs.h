/* Offsets and sizes of the structs of plugin_abi.h. */
#ifndef COLLECTIVES_TESTING_ABI_STRUCTS_H_
#define COLLECTIVES_TESTING_ABI_STRUCTS_H_

#include "collectives/plugin_abi.h"
#include "collectives/testing/abi_text.h"

static inline void abi_header(abi_text* text) {
  ABI_STRUCT(muonshard_header);
  ABI_FIELD(muonshard_header, size);
  ABI_FIELD(muonshard_header, reserved);
}

static inline void abi_status(abi_text* text) {
  ABI_STRUCT(muonshard_status);
  ABI_FIELD(muonshard_status, code);
  ABI_FIELD(muonshard_status, vendor_code);
  ABI_FIELD(muonshard_status, rank);
  ABI_FIELD(muonshard_status, reserved);
  ABI_FIELD(muonshard_status, sequence);
  ABI_FIELD(muonshard_status, text);
}

static inline void abi_buffer(abi_text* text) {
  ABI_STRUCT(muonshard_buffer);
  ABI_FIELD(muonshard_buffer, data);
  ABI_FIELD(muonshard_buffer, count);
}

static inline void abi_host(abi_text* text) {
  ABI_STRUCT(muonshard_host);
  ABI_FIELD(muonshard_host, header);
  ABI_FIELD(muonshard_host, abi_major);
  ABI_FIELD(muonshard_host, abi_minor);
  ABI_FIELD(muonshard_host, context);
  ABI_FIELD(muonshard_host, log);
  ABI_FIELD(muonshard_host, now_ns);
  ABI_FIELD(muonshard_host, yield);
  ABI_FIELD(muonshard_host, mutex_new);
  ABI_FIELD(muonshard_host, mutex_free);
  ABI_FIELD(muonshard_host, mutex_lock);
  ABI_FIELD(muonshard_host, mutex_unlock);
  ABI_FIELD(muonshard_host, condition_new);
  ABI_FIELD(muonshard_host, condition_free);
  ABI_FIELD(muonshard_host, condition_wait);
  ABI_FIELD(muonshard_host, condition_notify_all);
  ABI_FIELD(muonshard_host, task_start);
  ABI_FIELD(muonshard_host, task_join);
  ABI_FIELD(muonshard_host, task_current);
  ABI_FIELD(muonshard_host, event_then);
}

static inline void abi_store(abi_text* text) {
  ABI_STRUCT(muonshard_store);
  ABI_FIELD(muonshard_store, header);
  ABI_FIELD(muonshard_store, context);
  ABI_FIELD(muonshard_store, put);
  ABI_FIELD(muonshard_store, get);
  ABI_FIELD(muonshard_store, add);
}

static inline void abi_caps(abi_text* text) {
  ABI_STRUCT(muonshard_caps);
  ABI_FIELD(muonshard_caps, header);
  ABI_FIELD(muonshard_caps, operations);
  ABI_FIELD(muonshard_caps, data_types);
  ABI_FIELD(muonshard_caps, reductions);
  ABI_FIELD(muonshard_caps, memory_kinds);
  ABI_FIELD(muonshard_caps, features);
  ABI_FIELD(muonshard_caps, ranks_max);
  ABI_FIELD(muonshard_caps, reserved);
}

static inline void abi_comm_config(abi_text* text) {
  ABI_STRUCT(muonshard_comm_config);
  ABI_FIELD(muonshard_comm_config, header);
  ABI_FIELD(muonshard_comm_config, rank);
  ABI_FIELD(muonshard_comm_config, size);
  ABI_FIELD(muonshard_comm_config, store);
  ABI_FIELD(muonshard_comm_config, name);
  ABI_FIELD(muonshard_comm_config, deadline_ns);
  ABI_FIELD(muonshard_comm_config, options);
  ABI_FIELD(muonshard_comm_config, device);
  ABI_FIELD(muonshard_comm_config, program_rank);
}

static inline void abi_operation(abi_text* text) {
  ABI_STRUCT(muonshard_operation);
  ABI_FIELD(muonshard_operation, header);
  ABI_FIELD(muonshard_operation, kind);
  ABI_FIELD(muonshard_operation, data_type);
  ABI_FIELD(muonshard_operation, reduction);
  ABI_FIELD(muonshard_operation, memory_kind);
  ABI_FIELD(muonshard_operation, root);
  ABI_FIELD(muonshard_operation, peer);
  ABI_FIELD(muonshard_operation, in);
  ABI_FIELD(muonshard_operation, out);
  ABI_FIELD(muonshard_operation, in_counts);
  ABI_FIELD(muonshard_operation, in_displacements);
  ABI_FIELD(muonshard_operation, out_counts);
  ABI_FIELD(muonshard_operation, out_displacements);
  ABI_FIELD(muonshard_operation, scale);
  ABI_FIELD(muonshard_operation, device_scale);
  ABI_FIELD(muonshard_operation, ready);
  ABI_FIELD(muonshard_operation, ready_count);
  ABI_FIELD(muonshard_operation, reserved);
  ABI_FIELD(muonshard_operation, deadline_ns);
  ABI_FIELD(muonshard_operation, user_fingerprint);
  ABI_FIELD(muonshard_operation, label);
}

static inline void abi_counters(abi_text* text) {
  ABI_STRUCT(muonshard_counters);
  ABI_FIELD(muonshard_counters, header);
  ABI_FIELD(muonshard_counters, calls);
  ABI_FIELD(muonshard_counters, bytes_sent_to);
  ABI_FIELD(muonshard_counters, peer_capacity);
  ABI_FIELD(muonshard_counters, reserved);
}

static inline void abi_plugin_table(abi_text* text) {
  ABI_STRUCT(muonshard_plugin_table);
  ABI_FIELD(muonshard_plugin_table, header);
  ABI_FIELD(muonshard_plugin_table, abi_major);
  ABI_FIELD(muonshard_plugin_table, abi_minor);
  ABI_FIELD(muonshard_plugin_table, name);
  ABI_FIELD(muonshard_plugin_table, build);
  ABI_FIELD(muonshard_plugin_table, open);
  ABI_FIELD(muonshard_plugin_table, close);
  ABI_FIELD(muonshard_plugin_table, caps);
  ABI_FIELD(muonshard_plugin_table, comm_new);
  ABI_FIELD(muonshard_plugin_table, comm_split);
  ABI_FIELD(muonshard_plugin_table, comm_query);
  ABI_FIELD(muonshard_plugin_table, comm_abort);
  ABI_FIELD(muonshard_plugin_table, comm_free);
  ABI_FIELD(muonshard_plugin_table, comm_counters);
  ABI_FIELD(muonshard_plugin_table, memory_new);
  ABI_FIELD(muonshard_plugin_table, memory_register);
  ABI_FIELD(muonshard_plugin_table, memory_free);
  ABI_FIELD(muonshard_plugin_table, post);
  ABI_FIELD(muonshard_plugin_table, work_test);
  ABI_FIELD(muonshard_plugin_table, work_wait);
  ABI_FIELD(muonshard_plugin_table, work_then);
  ABI_FIELD(muonshard_plugin_table, work_free);
  ABI_FIELD(muonshard_plugin_table, work_after);
  ABI_FIELD(muonshard_plugin_table, report);
}

#endif /* COLLECTIVES_TESTING_ABI_STRUCTS_H_ */
