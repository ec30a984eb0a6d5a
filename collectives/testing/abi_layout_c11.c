#include "collectives/testing/abi_layout_c11.h"

#include "collectives/testing/abi_layout.h"
#include "collectives/testing/abi_text.h"

const char* abi_layout_c11(void) {
  static abi_text text;
  abi_layout(&text);
  return text.bytes;
}
