#include <csignal>

#include "daemon/process.h"

extern char** environ;

int main(int argc, char** argv) {
  // Blocked before anything can start a thread, so that every thread inherits it and only sigwait
  // sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return kvrouter::RunProcess({argv + 1, argv + argc}, kvrouter::ReadEnvironment(environ), signals);
}
