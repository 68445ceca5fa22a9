/* The process that holds a Pod's namespaces: it reaps orphans and ends on SIGTERM. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void terminate(int signal_number) {
  (void)signal_number;
  _exit(0);
}

static void reap(int signal_number) {
  (void)signal_number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, terminate);
  signal(SIGTERM, terminate);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
