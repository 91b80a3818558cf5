// A server of Demo.IEcho, as examples/c/server.c is one.
//
//   server ENDPOINT [TOKEN]    with a token it encrypts, and lets in only who has the token
//
// It prints where it listens, and ends in order at SIGINT and SIGTERM.
#include <atomic>
#include <csignal>
#include <iostream>
#include <stdexcept>
#include <witrpc.hpp>

int main(int argc, char **argv) {
  using namespace std::chrono_literals;
  // Before the library starts threads, so that none of them gets the signals.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  try {
    std::atomic<int> counted{ 0 };
    witrpc::Implementation echo("Demo.IEcho");
    // Handlers run on several threads at once. What they throw, the caller is told.
    echo.handle("int Add(int a, int b)", [](int a, int b) { return a + b; });
    echo.handle("int CountUp(int by)", [&counted](int by) { return counted += by; });
    echo.handle("void Work(int steps)", [](const witrpc::Request &request, int steps) {
      if (steps < 0) throw std::invalid_argument("steps must not be negative");
      for (int step = 1; step <= steps; ++step) request.raise("event Action<int> Progress", step);
    });

    witrpc::ServerOptions options(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100");
    options.serve(echo);
    if (argc > 2) options.encryption().token(argv[2]);
    const witrpc::Server server(options);
    std::cout << "listening " << server.endpoint() << std::endl;
    int got = 0;
    sigwait(&ends, &got);
    if (!server.stop(10s)) std::cerr << "calls were abandoned\n";
    return 0;
  } catch (const witrpc::Error &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
