// Symbols that headers of a current C++ runtime refer to and that older ones do not have, defined here for the addon
// alone (hidden from everybody else). See glibc_floor.h.
#include <new>

extern "C" {
// Tells reference counts whether they may do without atomic operations. Never, here.
__attribute__((visibility("hidden"))) extern const char __libc_single_threaded = 0;
}

namespace std {
__attribute__((visibility("hidden"))) void __throw_bad_array_new_length() { throw bad_array_new_length(); }
}  // namespace std
