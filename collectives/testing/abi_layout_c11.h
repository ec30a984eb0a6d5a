/* The layout of plugin_abi.h as a C compiler sees it. */
#ifndef COLLECTIVES_TESTING_ABI_LAYOUT_C11_H_
#define COLLECTIVES_TESTING_ABI_LAYOUT_C11_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Lines of text, valid for ever. */
const char* abi_layout_c11(void);

#ifdef __cplusplus
}
#endif

#endif /* COLLECTIVES_TESTING_ABI_LAYOUT_C11_H_ */
