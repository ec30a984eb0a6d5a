/* The contract between the core and a plugin: plain C, C11 and C++20. One file,
 * long as it is, because a plugin's author copies this file and no other.
 *
 * A plugin is a shared object that exports one symbol, MUONSHARD_ENTRY_NAME.
 * The core calls it with a host table, gets a plugin table, and from then on
 * both sides call each other through these tables alone.
 *
 * Versions     The major version is part of the entry's name: a break gets a
 *              new name, and one shared object may export several. A minor
 *              version only appends fields and slots. Every struct that is
 *              passed by pointer begins with its size in bytes, up to and
 *              including its last field (MUONSHARD_END, never sizeof). A
 *              reader takes the smaller of the size it was given and the size
 *              it knows; a missing tail means the default stated at the field,
 *              a longer one is accepted. Structs held by value inside others
 *              (header, status, buffer) are frozen.
 * Promises     Capability bits only ever promise. A bit that one rank of a
 *              group lacks, the group lacks.
 * Errors       Every call that can fail returns a muonshard_code and fills a
 *              status that the caller owns (may be null). No exception, no
 *              allocation that the other side must free, and no C++ type
 *              crosses.
 * Blocking     A plugin blocks, starts tasks and reads clocks through the host
 *              table only, so that one plugin serves real and simulated time.
 * Lifetime     The host table and the plugin table outlive every handle. All
 *              communicators are freed before `close`. Shared objects are
 *              never unloaded.
 * Threads      Calls on one communicator do not overlap, except comm_abort,
 *              which may come at any time from any task. Works may be waited
 *              for and freed from any task, also while others are posted.
 */
#ifndef COLLECTIVES_PLUGIN_ABI_H_
#define COLLECTIVES_PLUGIN_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MUONSHARD_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define MUONSHARD_SIZE_OF(type, field) sizeof(type::field)
extern "C" {
#else
#define MUONSHARD_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define MUONSHARD_SIZE_OF(type, field) sizeof(((type*)0)->field)
#endif

#define MUONSHARD_ABI_MAJOR 1u
#define MUONSHARD_ABI_MINOR 2u
#define MUONSHARD_ENTRY_NAME "muonshard_plugin_entry_v1"
/* Before the definition of the entry. */
#define MUONSHARD_EXPORT __attribute__((visibility("default")))

/* Bytes up to and including a field; sizeof would count tail padding too. */
#define MUONSHARD_END(type, field) \
  (offsetof(type, field) + MUONSHARD_SIZE_OF(type, field))
/* Whether the struct that `pointer` points to is long enough for `field`. */
#define MUONSHARD_HAS(pointer, type, field) \
  ((pointer)->header.size >= MUONSHARD_END(type, field))

typedef struct muonshard_header {
  uint32_t size;
  uint32_t reserved; /* 0 */
} muonshard_header;
MUONSHARD_STATIC_ASSERT(sizeof(muonshard_header) == 8, "frozen");

typedef int32_t muonshard_code;
enum {
  MUONSHARD_OK = 0,
  MUONSHARD_IN_PROGRESS = 1,  /* no error: the work has not ended */
  MUONSHARD_WAIT_EXPIRED = 2, /* no error: this wait ended, the work did not */
  MUONSHARD_E_ARGUMENT = 16,  /* this call was wrong; nothing was sent */
  MUONSHARD_E_STATE = 17,     /* the handle cannot do that now */
  MUONSHARD_E_UNSUPPORTED = 18,
  MUONSHARD_E_MEMORY = 19,
  MUONSHARD_E_SYSTEM = 20,
  MUONSHARD_E_MISMATCH = 21, /* the ranks disagree on the call */
  MUONSHARD_E_PEER = 22,     /* a peer was lost */
  MUONSHARD_E_TIMEOUT = 23,  /* the operation's own deadline passed */
  MUONSHARD_E_ABORTED = 24,
  MUONSHARD_E_CORRUPT = 25,
  MUONSHARD_E_VERSION = 26,
  MUONSHARD_E_INTERNAL = 27,
  MUONSHARD_E_DEADLOCK = 28 /* the ranks wait for each other for ever */
};

typedef struct muonshard_status {
  muonshard_code code;
  int32_t vendor_code;
  int32_t rank; /* the rank that is to blame, -1 if none is known */
  int32_t reserved;
  uint64_t sequence; /* of the operation in its communicator, from 0 */
  char text[488];    /* ends with a zero */
} muonshard_status;
MUONSHARD_STATIC_ASSERT(sizeof(muonshard_status) == 512, "frozen");

typedef struct muonshard_plugin_s* muonshard_plugin;
typedef struct muonshard_comm_s* muonshard_comm;
typedef struct muonshard_work_s* muonshard_work;
typedef struct muonshard_window_s* muonshard_window;
/* Handles of the host. */
typedef struct muonshard_mutex_s* muonshard_mutex;
typedef struct muonshard_condition_s* muonshard_condition;
typedef struct muonshard_task_s* muonshard_task;
typedef struct muonshard_event_s* muonshard_event;

enum { MUONSHARD_MEMORY_HOST = 0, MUONSHARD_MEMORY_CUDA = 1 };

enum {
  MUONSHARD_BF16 = 1,
  MUONSHARD_F16 = 2,
  MUONSHARD_F32 = 3,
  MUONSHARD_F64 = 4,
  MUONSHARD_I32 = 5,
  MUONSHARD_I64 = 6,
  MUONSHARD_U8 = 7
};

enum {
  MUONSHARD_SUM = 1,
  MUONSHARD_MIN = 2,
  MUONSHARD_MAX = 3,
  MUONSHARD_AVERAGE = 4,   /* sum in the accumulation type, times 1 / ranks;
                              floating types only */
  MUONSHARD_SCALED_SUM = 5 /* sum in the accumulation type, times `scale` */
};

enum {
  MUONSHARD_ALL_REDUCE = 0,
  MUONSHARD_REDUCE = 1,
  MUONSHARD_BROADCAST = 2,
  MUONSHARD_REDUCE_SCATTER_V = 3,
  MUONSHARD_ALL_GATHER_V = 4,
  MUONSHARD_ALL_TO_ALL_V = 5,
  MUONSHARD_SEND = 6,
  MUONSHARD_RECV = 7,
  MUONSHARD_BARRIER = 8,
  MUONSHARD_OPERATION_KINDS = 9
};

/* Bits of muonshard_caps.features. */
enum {
  /* Reductions give the canonical result: contributions converted to the
   * accumulation type (f32 for bf16 and f16, else their own), folded left to
   * right over ranks 0..N-1, scaled once by the scale rounded to that type,
   * rounded once. */
  MUONSHARD_FEATURE_CANONICAL = 1 << 0,
  /* The same inputs give the same bits in every run. */
  MUONSHARD_FEATURE_REPEATABLE = 1 << 1,
  /* Calls on which the ranks disagree fail on every rank, naming both. */
  MUONSHARD_FEATURE_MISMATCH_DETECTED = 1 << 2,
  /* Ranks that wait for each other for ever are told so at once. */
  MUONSHARD_FEATURE_DEADLOCK_DETECTED = 1 << 3,
  MUONSHARD_FEATURE_SPLIT = 1 << 4,
  MUONSHARD_FEATURE_WINDOW = 1 << 5,
  /* bytes_sent counts payload exactly. */
  MUONSHARD_FEATURE_EXACT_COUNTERS = 1 << 6
};

/* A run of `count` elements. `data` may be null if count is 0. */
typedef struct muonshard_buffer {
  void* data;
  uint64_t count;
} muonshard_buffer;
MUONSHARD_STATIC_ASSERT(sizeof(muonshard_buffer) == 16, "frozen");

/* What the core offers a plugin. Deadlines are instants of now_ns; INT64_MAX
 * never passes. Every function may be called from any task. */
typedef struct muonshard_host {
  muonshard_header header;
  uint32_t abi_major, abi_minor;
  void* context; /* first argument of every function below */

  /* severity: 0 info, 1 warning, 2 error. */
  void (*log)(void* context, int32_t severity, const char* text);
  int64_t (*now_ns)(void* context);
  void (*yield)(void* context);

  muonshard_mutex (*mutex_new)(void* context); /* null: out of memory */
  void (*mutex_free)(void* context, muonshard_mutex mutex);
  void (*mutex_lock)(void* context, muonshard_mutex mutex);
  void (*mutex_unlock)(void* context, muonshard_mutex mutex);

  muonshard_condition (*condition_new)(void* context);
  void (*condition_free)(void* context, muonshard_condition condition);
  /* Returns 1, maybe without cause, or 0 if the deadline passed first. */
  int32_t (*condition_wait)(void* context, muonshard_condition condition,
                            muonshard_mutex mutex, int64_t deadline_ns);
  void (*condition_notify_all)(void* context, muonshard_condition condition);

  /* A task that serves: blocked for ever it is no deadlock. */
  muonshard_task (*task_start)(void* context, const char* name,
                               void (*function)(void* argument),
                               void* argument);
  void (*task_join)(void* context, muonshard_task task); /* and frees it */
  /* Identifies the calling task; never 0. */
  uint64_t (*task_current)(void* context);

  /* Calls `function` once when the event has happened, now if it has; `code`
   * is MUONSHARD_OK or the event's error, `text` its message. The call must
   * not block. */
  void (*event_then)(void* context, muonshard_event event,
                     void (*function)(void* argument, muonshard_code code,
                                      const char* text),
                     void* argument);
} muonshard_host;

/* Key-value store through which the ranks of a group find each other. */
typedef struct muonshard_store {
  muonshard_header header;
  void* context;
  muonshard_code (*put)(void* context, const char* key, const void* value,
                        uint64_t bytes, muonshard_status* status);
  /* Waits for the key. Writes at most `capacity` bytes; *bytes is the size of
   * the whole value. */
  muonshard_code (*get)(void* context, const char* key, void* value,
                        uint64_t capacity, uint64_t* bytes, int64_t deadline_ns,
                        muonshard_status* status);
  /* Adds to a counter that starts at 0; *now is the sum. */
  muonshard_code (*add)(void* context, const char* key, int64_t delta,
                        int64_t* now, muonshard_status* status);
} muonshard_store;

typedef struct muonshard_caps {
  muonshard_header header;
  uint64_t operations; /* bit 1 << MUONSHARD_ALL_REDUCE, ... */
  uint64_t data_types; /* bit 1 << MUONSHARD_BF16, ... */
  uint64_t reductions; /* bit 1 << MUONSHARD_SUM, ... */
  uint64_t memory_kinds;
  uint64_t features;
  uint32_t ranks_max; /* 0: no limit */
  uint32_t reserved;
} muonshard_caps;

typedef struct muonshard_comm_config {
  muonshard_header header;
  int32_t rank, size;
  const muonshard_store* store;
  /* Equal on all ranks of the group and unique among live groups of the job:
   * job, generation, group name and a hash of the members. */
  const char* name;
  int64_t deadline_ns;  /* of making the communicator */
  const char* options;  /* JSON of the user, not read by the core; not null */
  int32_t device;       /* -1: host memory only */
  int32_t program_rank; /* rank in the world, for reports */
} muonshard_comm_config;

/* One descriptor for every operation. N is the group's size, r the own rank.
 *
 *   all-reduce        in: n, out: n
 *   reduce            in: n, out: n on the root, else empty
 *   broadcast         in: n on the root, else empty; out: n
 *   reduce-scatter-v  in: sum of in_counts, out: in_counts[r]
 *   all-gather-v      in: out_counts[r], out: sum of out_counts
 *   all-to-all-v      in_counts and out_counts, with displacements
 *   send              in: n to `peer`;  recv  out: n from `peer`
 *   barrier           nothing
 *
 * in may equal out for all-reduce, reduce and broadcast; for reduce-scatter-v
 * and all-gather-v the own segment may lie in place. Buffers otherwise do not
 * overlap and belong to the work until it ends. */
typedef struct muonshard_operation {
  muonshard_header header;
  uint32_t kind, data_type, reduction, memory_kind;
  int32_t root; /* of reduce and broadcast */
  int32_t peer; /* of send and recv */
  muonshard_buffer in, out;
  const uint64_t* in_counts;        /* N entries or null */
  const uint64_t* in_displacements; /* N entries or null: packed */
  const uint64_t* out_counts;
  const uint64_t* out_displacements;
  double scale;               /* of MUONSHARD_SCALED_SUM */
  const double* device_scale; /* in device memory, instead of scale; or null */
  /* Every event that must happen before `in` is read and `out` is written.
   * muonshard_event, or cudaEvent_t with CUDA memory. An error of one fails
   * the operation, and with it the group. */
  void* const* ready;
  uint32_t ready_count;
  uint32_t reserved;
  int64_t deadline_ns;
  uint64_t user_fingerprint; /* must be equal on all ranks */
  const char* label;         /* for reports; not null */
} muonshard_operation;

/* Payload counted since the communicator was made. */
typedef struct muonshard_counters {
  muonshard_header header;
  uint64_t calls[16];      /* by kind */
  uint64_t* bytes_sent_to; /* `peer_capacity` entries, of the caller; peers
                              by rank. Self is not counted. */
  uint32_t peer_capacity;
  uint32_t reserved;
} muonshard_counters;

typedef void (*muonshard_done_function)(void* argument,
                                        const muonshard_status* status);

typedef struct muonshard_plugin_table {
  muonshard_header header;
  uint32_t abi_major, abi_minor;
  const char* name;
  const char* build; /* version for a person */

  muonshard_code (*open)(const muonshard_host* host, const char* options,
                         muonshard_plugin* plugin, muonshard_status* status);
  void (*close)(muonshard_plugin plugin);
  muonshard_code (*caps)(muonshard_plugin plugin, int32_t device,
                         muonshard_caps* caps, muonshard_status* status);

  /* Collective: returns when all ranks have come, or at the deadline. */
  muonshard_code (*comm_new)(muonshard_plugin plugin,
                             const muonshard_comm_config* config,
                             muonshard_comm* comm, muonshard_status* status);
  /* Collective over `parent`. color -1: this rank gets a null comm. Ranks of
   * one color form a group, ordered by (key, rank in parent). config.rank and
   * config.size are ignored; new_rank and new_size are written. May be null
   * without MUONSHARD_FEATURE_SPLIT. */
  muonshard_code (*comm_split)(muonshard_comm parent, int32_t color,
                               int32_t key, const muonshard_comm_config* config,
                               muonshard_comm* comm, int32_t* new_rank,
                               int32_t* new_size, muonshard_status* status);
  /* MUONSHARD_OK, or the error that broke the group. */
  muonshard_code (*comm_query)(muonshard_comm comm, muonshard_status* status);
  /* Ends every work of the group on every rank with `why`, and all later calls:
   * with its text, its rank and its code, or with MUONSHARD_E_ABORTED if that
   * is no error. Does not block; idempotent; any task. */
  void (*comm_abort)(muonshard_comm comm, const muonshard_status* why);
  /* Local. Works that have not ended end with MUONSHARD_E_ABORTED, here and on
   * the other ranks. Handles of works stay valid until work_free. May
   * come in a function given to work_then, and so in a task of the plugin's: it
   * does not wait for that function to return. */
  void (*comm_free)(muonshard_comm comm);
  muonshard_code (*comm_counters)(muonshard_comm comm,
                                  muonshard_counters* counters,
                                  muonshard_status* status);

  /* Collective over `comm`, in the order of posts: memory that peers can read,
   * zeros, as many bytes as each rank wants. Returns when all ranks have come.
   * This and the next two may be null without MUONSHARD_FEATURE_WINDOW. */
  muonshard_code (*memory_new)(muonshard_comm comm, uint64_t bytes,
                               uint32_t memory_kind, int64_t deadline_ns,
                               void** data, muonshard_window* window,
                               muonshard_status* status);
  /* Local: makes the caller's memory fast to use. */
  muonshard_code (*memory_register)(muonshard_comm comm, void* data,
                                    uint64_t bytes, uint32_t memory_kind,
                                    muonshard_window* window,
                                    muonshard_status* status);
  /* Local. No work that has not ended uses it. Comes before comm_free. */
  muonshard_code (*memory_free)(muonshard_comm comm, muonshard_window window,
                                muonshard_status* status);

  /* Posts `count` operations as one launch; operation i is on comms[i] and gets
   * works[i]. Validates all, then starts all: after an error nothing was
   * started, and `*failed` is the index of the operation at fault. Does not
   * wait for peers. Operations of all ranks of one communicator run in the
   * order posted. Messages meet per pair of ranks, in the order posted, and run
   * beside one another and beside later operations: what must come after one
   * has it in `ready`. */
  muonshard_code (*post)(const muonshard_comm* comms,
                         const muonshard_operation* const* operations,
                         uint32_t count, muonshard_work* works,
                         uint32_t* failed, muonshard_status* status);

  /* MUONSHARD_IN_PROGRESS, or the one result the work ended with. */
  muonshard_code (*work_test)(muonshard_work work, muonshard_status* status);
  /* As work_test, but waits; MUONSHARD_WAIT_EXPIRED if the deadline passed
   * first and the work goes on. */
  muonshard_code (*work_wait)(muonshard_work work, int64_t deadline_ns,
                              muonshard_status* status);
  /* Calls `function` once when the work ends, now if it has. It must not
   * block. Host streams are put behind a work through this. */
  muonshard_code (*work_then)(muonshard_work work,
                              muonshard_done_function function, void* argument,
                              muonshard_status* status);
  /* Drops the handle; the operation goes on. */
  void (*work_free)(muonshard_work work);

  /* Since minor 1. Puts what is enqueued later on a device stream behind the
   * work. Null or missing where a plugin has no device memory. */
  muonshard_code (*work_after)(muonshard_work work, void* device_stream,
                               muonshard_status* status);

  /* Since minor 2. What the plugin tells of itself, for tests and people: one
   * "name: value" a line. Writes at most `capacity` bytes, without an ending
   * zero; *bytes is the size of the whole text. May be null. */
  muonshard_code (*report)(muonshard_plugin plugin, char* text,
                           uint64_t capacity, uint64_t* bytes,
                           muonshard_status* status);
} muonshard_plugin_table;

/* The exported symbol. Returns null and fills `status` on failure. */
typedef const muonshard_plugin_table* (*muonshard_entry_function)(
    const muonshard_host* host, muonshard_status* status);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVES_PLUGIN_ABI_H_ */
