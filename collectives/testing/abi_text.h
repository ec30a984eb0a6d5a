/* Lines of text about plugin_abi.h, written by whichever language includes this
 * file. */
#ifndef COLLECTIVES_TESTING_ABI_TEXT_H_
#define COLLECTIVES_TESTING_ABI_TEXT_H_

#include <stddef.h>
#include <stdio.h>

#include "collectives/plugin_abi.h"

#ifdef __cplusplus
#define ABI_ALIGNMENT(type) alignof(type)
#define ABI_SIZE(value) static_cast<size_t>(value)
#else
#define ABI_ALIGNMENT(type) _Alignof(type)
#define ABI_SIZE(value) ((size_t)(value))
#endif

typedef struct abi_text {
  char bytes[16384];
  size_t used;
} abi_text;

static inline void abi_line(abi_text* text, const char* name, size_t first,
                            size_t second) {
  const size_t room = sizeof(text->bytes) - text->used;
  const int written = snprintf(text->bytes + text->used, room, "%s %zu %zu\n",
                               name, first, second);
  if (written > 0) text->used += ABI_SIZE(written);
}

/* "name value 0" */
#define ABI_VALUE(name) abi_line(text, #name, ABI_SIZE(name), 0)
/* "name size alignment" */
#define ABI_STRUCT(type) \
  abi_line(text, #type, sizeof(type), ABI_ALIGNMENT(type))
/* "name.field offset size" */
#define ABI_FIELD(type, field)                            \
  abi_line(text, #type "." #field, offsetof(type, field), \
           MUONSHARD_SIZE_OF(type, field))

#endif /* COLLECTIVES_TESTING_ABI_TEXT_H_ */
