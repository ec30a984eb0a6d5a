#include "collectives/testing/solo_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct callback {
  muonshard_done_function function;
  void* argument;
  muonshard_status status; /* of the work, once it has ended */
  struct callback* next;
} callback;

struct muonshard_plugin_s {
  const muonshard_host* host;
  muonshard_mutex mutex; /* guards all communicators and works */
  muonshard_condition changed;
  int without_caps;   /* `caps` fails */
  int without_report; /* `report` fails */
};

struct muonshard_comm_s {
  muonshard_plugin plugin;
  muonshard_status broken; /* its code is MUONSHARD_OK while it is whole */
  uint64_t sequence;       /* of the next operation */
  uint64_t calls[MUONSHARD_OPERATION_KINDS];
  muonshard_work first; /* of those that have not ended, as posted */
  int uncounted;        /* counters fail */
};

struct muonshard_work_s {
  muonshard_plugin plugin;
  muonshard_comm comm; /* null once the work has ended */
  muonshard_work next;
  uint32_t references; /* the handle, the queue, each event to come */
  uint32_t unready;    /* events to come */
  muonshard_status status;
  int64_t deadline_ns;
  const void* from;
  void* to;
  size_t bytes;
  callback* callbacks;
};

static void lock(muonshard_plugin plugin) {
  plugin->host->mutex_lock(plugin->host->context, plugin->mutex);
}

/* Lets go of the lock, and calls back what has ended. */
static void unlock(muonshard_plugin plugin, callback* due) {
  plugin->host->condition_notify_all(plugin->host->context, plugin->changed);
  plugin->host->mutex_unlock(plugin->host->context, plugin->mutex);
  while (due != NULL) {
    callback* const called = due;
    due = called->next;
    called->function(called->argument, &called->status);
    free(called);
  }
}

static muonshard_status status_of(muonshard_code code, const char* text,
                                  uint64_t sequence) {
  muonshard_status status;
  memset(&status, 0, sizeof(status));
  status.code = code;
  status.rank = -1;
  status.sequence = sequence;
  snprintf(status.text, sizeof(status.text), "%s", text);
  return status;
}

static muonshard_code give(muonshard_status* to, muonshard_status status) {
  if (to != NULL) *to = status;
  return status.code;
}

static void release(muonshard_work work) {
  if (--work->references == 0) free(work);
}

static void end_first(muonshard_comm comm, callback** due) {
  muonshard_work const work = comm->first;
  comm->first = work->next;
  work->comm = NULL;
  work->status = comm->broken;
  if (comm->broken.code == MUONSHARD_OK && work->bytes > 0) {
    memmove(work->to, work->from, work->bytes);
  }
  while (work->callbacks != NULL) {
    callback* const ended = work->callbacks;
    work->callbacks = ended->next;
    ended->status = work->status;
    ended->next = *due;
    *due = ended;
  }
  release(work);
}

/* Ends the works that can end, in order. */
static void advance(muonshard_comm comm, callback** due) {
  while (comm->first != NULL &&
         (comm->broken.code != MUONSHARD_OK || comm->first->unready == 0)) {
    end_first(comm, due);
  }
}

static void break_group(muonshard_comm comm, muonshard_status why,
                        callback** due) {
  if (comm->broken.code == MUONSHARD_OK) comm->broken = why;
  advance(comm, due);
}

static void on_ready(void* argument, muonshard_code code, const char* text) {
  muonshard_work const work = argument;
  muonshard_plugin const plugin = work->plugin;
  callback* due = NULL;
  lock(plugin);
  --work->unready;
  if (work->comm != NULL && code != MUONSHARD_OK) {
    break_group(work->comm, status_of(code, text, work->status.sequence), &due);
  } else if (work->comm != NULL) {
    advance(work->comm, &due);
  }
  release(work);
  unlock(plugin, due);
}

static muonshard_code open_plugin(const muonshard_host* host,
                                  const char* options, muonshard_plugin* plugin,
                                  muonshard_status* status) {
  if (strstr(options, "refuse") != NULL) {
    return give(status, status_of(MUONSHARD_E_ARGUMENT, "as was asked", 0));
  }
  muonshard_plugin const opened = calloc(1, sizeof(*opened));
  if (opened == NULL) {
    return give(status, status_of(MUONSHARD_E_MEMORY, "no memory", 0));
  }
  opened->host = host;
  opened->without_caps = strstr(options, "no caps") != NULL;
  opened->without_report = strstr(options, "no report") != NULL;
  opened->mutex = host->mutex_new(host->context);
  opened->changed = host->condition_new(host->context);
  *plugin = opened;
  return MUONSHARD_OK;
}

static void close_plugin(muonshard_plugin plugin) {
  const muonshard_host* const host = plugin->host;
  host->log(host->context, 0, "closed");
  host->condition_free(host->context, plugin->changed);
  host->mutex_free(host->context, plugin->mutex);
  free(plugin);
}

static muonshard_code plugin_caps(muonshard_plugin plugin, int32_t device,
                                  muonshard_caps* caps,
                                  muonshard_status* status) {
  (void)device;
  if (plugin->without_caps) {
    return give(status, status_of(MUONSHARD_E_SYSTEM, "no device to ask", 0));
  }
  caps->operations = 1u << MUONSHARD_ALL_REDUCE | 1u << MUONSHARD_ALL_GATHER_V |
                     1u << MUONSHARD_REDUCE_SCATTER_V | 1u << MUONSHARD_BARRIER;
  caps->data_types = 1u << MUONSHARD_F32 | 1u << MUONSHARD_U8;
  caps->reductions = 1u << MUONSHARD_SUM | 1u << MUONSHARD_MAX;
  caps->memory_kinds = 1u << MUONSHARD_MEMORY_HOST;
  caps->features = MUONSHARD_FEATURE_CANONICAL | MUONSHARD_FEATURE_REPEATABLE |
                   MUONSHARD_FEATURE_EXACT_COUNTERS;
  caps->ranks_max = 1;
  return MUONSHARD_OK;
}

static muonshard_code comm_new(muonshard_plugin plugin,
                               const muonshard_comm_config* config,
                               muonshard_comm* comm, muonshard_status* status) {
  if (strcmp(config->name, "refused") == 0) {
    return give(status, status_of(MUONSHARD_E_TIMEOUT, "nobody came", 0));
  }
  muonshard_comm const made = calloc(1, sizeof(*made));
  if (made == NULL) {
    return give(status, status_of(MUONSHARD_E_MEMORY, "no memory", 0));
  }
  made->plugin = plugin;
  made->broken.rank = -1;
  made->uncounted = strcmp(config->name, "uncounted") == 0;
  *comm = made;
  return MUONSHARD_OK;
}

static muonshard_code comm_query(muonshard_comm comm,
                                 muonshard_status* status) {
  lock(comm->plugin);
  const muonshard_status broken = comm->broken;
  unlock(comm->plugin, NULL);
  return give(status, broken);
}

static void comm_abort(muonshard_comm comm, const muonshard_status* why) {
  callback* due = NULL;
  lock(comm->plugin);
  break_group(comm, *why, &due);
  unlock(comm->plugin, due);
}

static void comm_free(muonshard_comm comm) {
  const muonshard_status why =
      status_of(MUONSHARD_E_ABORTED, "the rank left the group", 0);
  comm_abort(comm, &why);
  free(comm);
}

static muonshard_code comm_counters(muonshard_comm comm,
                                    muonshard_counters* counters,
                                    muonshard_status* status) {
  if (comm->uncounted) {
    return give(status, status_of(MUONSHARD_E_SYSTEM, "lost count", 0));
  }
  lock(comm->plugin);
  memcpy(counters->calls, comm->calls, sizeof(comm->calls));
  unlock(comm->plugin, NULL);
  memset(counters->bytes_sent_to, 0,
         counters->peer_capacity * sizeof(*counters->bytes_sent_to));
  return MUONSHARD_OK;
}

/* Whether operation `i` can be posted; else why not. */
static muonshard_status check(muonshard_comm comm,
                              const muonshard_operation* operation) {
  if (comm->broken.code != MUONSHARD_OK) return comm->broken;
  if (strcmp(operation->label, "refused") == 0) {
    return status_of(MUONSHARD_E_MISMATCH, "as was asked", comm->sequence);
  }
  return status_of(MUONSHARD_OK, "", 0);
}

static muonshard_work start(muonshard_comm comm,
                            const muonshard_operation* operation) {
  muonshard_work const work = calloc(1, sizeof(*work));
  if (work == NULL) return NULL;
  work->plugin = comm->plugin;
  work->comm = comm;
  work->references = 2 + operation->ready_count;
  work->unready = operation->ready_count;
  work->status = status_of(MUONSHARD_IN_PROGRESS, "", comm->sequence++);
  work->deadline_ns = operation->deadline_ns;
  work->from = operation->in.data;
  work->to = operation->out.data;
  work->bytes = operation->out.count *
                (operation->data_type == MUONSHARD_F32 ? sizeof(float) : 1);
  muonshard_work* last = &comm->first;
  while (*last != NULL) last = &(*last)->next;
  *last = work;
  ++comm->calls[operation->kind];
  return work;
}

static muonshard_code post(const muonshard_comm* comms,
                           const muonshard_operation* const* operations,
                           uint32_t count, muonshard_work* works,
                           uint32_t* failed, muonshard_status* status) {
  muonshard_plugin const plugin = comms[0]->plugin;
  const muonshard_host* const host = plugin->host;
  char line[32];
  snprintf(line, sizeof(line), "post of %u", (unsigned)count);
  host->log(host->context, 0, line);
  lock(plugin);
  for (uint32_t i = 0; i < count; ++i) {
    const muonshard_status checked = check(comms[i], operations[i]);
    if (checked.code != MUONSHARD_OK) {
      *failed = i;
      unlock(plugin, NULL);
      return give(status, checked);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    const int is_lost = strcmp(operations[i]->label, "lost") == 0;
    works[i] = is_lost ? NULL : start(comms[i], operations[i]);
  }
  callback* due = NULL;
  for (uint32_t i = 0; i < count; ++i) advance(comms[i], &due);
  unlock(plugin, due);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t e = 0; works[i] != NULL && e < operations[i]->ready_count;
         ++e) {
      host->event_then(host->context, operations[i]->ready[e], on_ready,
                       works[i]);
    }
  }
  return MUONSHARD_OK;
}

static muonshard_code work_test(muonshard_work work, muonshard_status* status) {
  lock(work->plugin);
  const muonshard_status now = work->status;
  unlock(work->plugin, NULL);
  return give(status, now);
}

static muonshard_code work_wait(muonshard_work work, int64_t deadline_ns,
                                muonshard_status* status) {
  muonshard_plugin const plugin = work->plugin;
  const muonshard_host* const host = plugin->host;
  const int64_t until =
      work->deadline_ns < deadline_ns ? work->deadline_ns : deadline_ns;
  callback* due = NULL;
  lock(plugin);
  int32_t in_time = 1;
  while (work->comm != NULL && in_time) {
    in_time = host->condition_wait(host->context, plugin->changed,
                                   plugin->mutex, until);
  }
  if (work->comm != NULL && work->deadline_ns <= deadline_ns) {
    break_group(work->comm,
                status_of(MUONSHARD_E_TIMEOUT, "its deadline passed",
                          work->status.sequence),
                &due);
  }
  const muonshard_status now = work->status;
  unlock(plugin, due);
  give(status, now);
  return now.code == MUONSHARD_IN_PROGRESS ? MUONSHARD_WAIT_EXPIRED : now.code;
}

static muonshard_code work_then(muonshard_work work,
                                muonshard_done_function function,
                                void* argument, muonshard_status* status) {
  callback* const added = calloc(1, sizeof(*added));
  if (added == NULL) {
    return give(status, status_of(MUONSHARD_E_MEMORY, "no memory", 0));
  }
  added->function = function;
  added->argument = argument;
  callback* due = NULL;
  lock(work->plugin);
  if (work->comm == NULL) {
    added->status = work->status;
    due = added;
  } else {
    added->next = work->callbacks;
    work->callbacks = added;
  }
  unlock(work->plugin, due);
  return MUONSHARD_OK;
}

static void work_free(muonshard_work work) {
  muonshard_plugin const plugin = work->plugin;
  lock(plugin);
  release(work);
  unlock(plugin, NULL);
}

static muonshard_code report(muonshard_plugin plugin, char* text,
                             uint64_t capacity, uint64_t* bytes,
                             muonshard_status* status) {
  if (plugin->without_report) {
    return give(status, status_of(MUONSHARD_E_SYSTEM, "nothing to tell", 0));
  }
  /* Longer than a reader's first guess: it must ask for the rest. */
  const char line[] = "solo: 1\n";
  const uint64_t line_bytes = sizeof(line) - 1;
  *bytes = 1000 * line_bytes;
  for (uint64_t i = 0; i < *bytes && i < capacity; ++i) {
    text[i] = line[i % line_bytes];
  }
  return MUONSHARD_OK;
}

muonshard_plugin_table SoloTable(void) {
  const muonshard_plugin_table table = {
      .header = {MUONSHARD_END(muonshard_plugin_table, report), 0},
      .abi_major = MUONSHARD_ABI_MAJOR,
      .abi_minor = MUONSHARD_ABI_MINOR,
      .name = "solo",
      .build = "1",
      .open = open_plugin,
      .close = close_plugin,
      .caps = plugin_caps,
      .comm_new = comm_new,
      .comm_query = comm_query,
      .comm_abort = comm_abort,
      .comm_free = comm_free,
      .comm_counters = comm_counters,
      .post = post,
      .work_test = work_test,
      .work_wait = work_wait,
      .work_then = work_then,
      .work_free = work_free,
      .report = report,
  };
  return table;
}
