// Included ahead of every source: binds the functions whose symbol version moved in glibc 2.34 to their first version,
// so that an artefact built on a current distribution loads on the oldest one that Node.js itself supports (2.28).
#pragma once

#if defined(__x86_64__)
#define KVCR_GLIBC_FIRST "GLIBC_2.2.5"
#define KVCR_GLIBC_SETCLOCK "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define KVCR_GLIBC_FIRST "GLIBC_2.17"
#define KVCR_GLIBC_SETCLOCK "GLIBC_2.17"
#endif

#ifdef KVCR_GLIBC_FIRST
__asm__(".symver dlopen,dlopen@" KVCR_GLIBC_FIRST);
__asm__(".symver dlsym,dlsym@" KVCR_GLIBC_FIRST);
__asm__(".symver dladdr,dladdr@" KVCR_GLIBC_FIRST);
__asm__(".symver dlclose,dlclose@" KVCR_GLIBC_FIRST);
__asm__(".symver dlerror,dlerror@" KVCR_GLIBC_FIRST);
__asm__(".symver pthread_condattr_setclock,pthread_condattr_setclock@" KVCR_GLIBC_SETCLOCK);
__asm__(".symver pthread_sigmask,pthread_sigmask@" KVCR_GLIBC_FIRST);
__asm__(".symver pthread_create,pthread_create@" KVCR_GLIBC_FIRST);
__asm__(".symver pthread_join,pthread_join@" KVCR_GLIBC_FIRST);
__asm__(".symver pthread_mutex_trylock,pthread_mutex_trylock@" KVCR_GLIBC_FIRST);
#endif
