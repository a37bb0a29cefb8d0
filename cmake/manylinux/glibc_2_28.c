// SPDX-License-Identifier: MIT
// Linked into a wheel's library and program (DLPRIM_MANYLINUX) so that they load where glibc is 2.28: a newer one gives
// the linker newer versions of these functions, of which most only moved from libpthread and libdl into libc. Hidden
// functions of the same names take their place, also in static libraries, and call the old version, or do the work where
// there is none.
#ifndef __x86_64__
#error "versions of another architecture's symbols"
#endif

#define HIDDEN __attribute__((visibility("hidden")))
// `name` of these parameters, by the function's first version.
#define OLD(result, name, parameters, arguments)          \
  extern result old_##name parameters;                    \
  __asm__(".symver old_" #name "," #name "@GLIBC_2.2.5"); \
  HIDDEN result name parameters { return old_##name arguments; }

OLD(double, exp, (double x), (x))
OLD(double, log, (double x), (x))
OLD(double, pow, (double x, double y), (x, y))

OLD(int, dladdr, (const void* address, void* info), (address, info))
OLD(int, dlclose, (void* library), (library))
OLD(char*, dlerror, (void), ())
OLD(void*, dlopen, (const char* name, int flags), (name, flags))
OLD(void*, dlsym, (void* library, const char* name), (library, name))

typedef void* (*Start)(void*);
OLD(int, pthread_create, (void* thread, const void* attributes, Start start, void* argument),
    (thread, attributes, start, argument))
OLD(int, pthread_join, (unsigned long thread, void** result), (thread, result))
OLD(int, pthread_detach, (unsigned long thread), (thread))
OLD(int, pthread_once, (int* control, void (*call)(void)), (control, call))
OLD(int, pthread_mutex_trylock, (void* mutex), (mutex))
OLD(int, pthread_mutexattr_init, (void* attributes), (attributes))
OLD(int, pthread_mutexattr_settype, (void* attributes, int type), (attributes, type))
OLD(int, pthread_mutexattr_destroy, (void* attributes), (attributes))
OLD(int, pthread_rwlock_rdlock, (void* lock), (lock))
OLD(int, pthread_rwlock_wrlock, (void* lock), (lock))
OLD(int, pthread_rwlock_unlock, (void* lock), (lock))
OLD(int, __pthread_key_create, (unsigned* key, void (*destroy)(void*)), (key, destroy))
OLD(int, pthread_key_create, (unsigned* key, void (*destroy)(void*)), (key, destroy))
OLD(int, pthread_key_delete, (unsigned key), (key))
OLD(void*, pthread_getspecific, (unsigned key), (key))
OLD(int, pthread_setspecific, (unsigned key, const void* value), (key, value))

// stat and its kin were inline functions around these; 1 is the layout of the structure.
#define BY_LAYOUT(name, symbol, Subject)                    \
  extern int old_##name(int, Subject, void*);               \
  __asm__(".symver old_" #name "," #symbol "@GLIBC_2.2.5"); \
  HIDDEN int name(Subject subject, void* status) { return old_##name(1, subject, status); }
BY_LAYOUT(stat, __xstat, const char*)
BY_LAYOUT(stat64, __xstat64, const char*)
BY_LAYOUT(lstat, __lxstat, const char*)
BY_LAYOUT(lstat64, __lxstat64, const char*)
BY_LAYOUT(fstat, __fxstat, int)
BY_LAYOUT(fstat64, __fxstat64, int)

// libstdc++'s reference counts: 0 is "there may be threads".
HIDDEN char __libc_single_threaded = 0;

extern long getrandom(void* bytes, unsigned long size, unsigned flags);

HIDDEN unsigned arc4random(void) {
  unsigned number = 0;
  getrandom(&number, sizeof number, 0);
  return number;
}

struct timespec {
  long seconds, nanoseconds;
};
extern int clock_gettime(int clock, struct timespec* now);
extern int pthread_cond_timedwait(void* condition, void* mutex, const struct timespec* until);

// Waits by the condition's own clock (CLOCK_REALTIME, 0) for as long as `clock` leaves, as libstdc++ did then: if that
// clock is set meanwhile, those who wait are woken early, and ask their own clock again, or late.
HIDDEN int pthread_cond_clockwait(void* condition, void* mutex, int clock, const struct timespec* until) {
  struct timespec now, real, end;
  clock_gettime(clock, &now);
  clock_gettime(0, &real);
  end.seconds = real.seconds + until->seconds - now.seconds;
  end.nanoseconds = real.nanoseconds + until->nanoseconds - now.nanoseconds;
  while (end.nanoseconds < 0) end.nanoseconds += 1000000000, end.seconds--;
  while (end.nanoseconds >= 1000000000) end.nanoseconds -= 1000000000, end.seconds++;
  return pthread_cond_timedwait(condition, mutex, &end);
}

extern int posix_spawn_file_actions_addclose(void* actions, int file);
extern long sysconf(int name);

// Closes what a process commonly has: the child's limit on open files may be millions.
HIDDEN int posix_spawn_file_actions_addclosefrom_np(void* actions, int first) {
  const long most = sysconf(4);  // _SC_OPEN_MAX
  for (int file = first; file < (most < 1024 ? (int)most : 1024); file++) {
    const int error = posix_spawn_file_actions_addclose(actions, file);
    if (error) return error;
  }
  return 0;
}
