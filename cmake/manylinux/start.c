// SPDX-License-Identifier: MIT
// As glibc_2_28.c, for programs: an older glibc leaves a program's constructors to what the linker put into it then.
#define HIDDEN __attribute__((visibility("hidden")))

typedef void (*Initializer)(int, char**, char**);
extern HIDDEN Initializer __init_array_start[], __init_array_end[];

static void initialize(int count, char** words, char** environment) {
  for (Initializer* each = __init_array_start; each < __init_array_end; each++) (*each)(count, words, environment);
}

extern int old_start(int (*)(int, char**, char**), int, char**, Initializer, void (*)(void), void (*)(void), void*);
__asm__(".symver old_start,__libc_start_main@GLIBC_2.2.5");

HIDDEN int __libc_start_main(int (*main)(int, char**, char**), int count, char** words, Initializer unused,
                             void (*finish)(void), void (*finish_loader)(void), void* stack) {
  (void)unused;
  return old_start(main, count, words, initialize, finish, finish_loader, stack);
}
