// Objects that live before main() begins and after it has ended, in an order that nobody chose: a
// server and a client at namespace scope, calls from their constructors and destructors.
#include "test.hpp"

using namespace std::chrono_literals;

namespace {

struct Early {
  Early() {
    witrpc::Implementation made("Demo.ITest");
    made.handle("int Add(int a, int b)", [](int a, int b) { return a + b; });
    witrpc::ServerOptions options("tcp://127.0.0.1:0");
    options.serve(made);
    server.emplace(options);
    client.emplace(server->endpoint());
    client->connect();
    service.emplace(client->service("Demo.ITest"));
    sum = service->call<int>("int Add(int,int)", 20, 22);
  }
  ~Early() {
    if (service->call<int>("int Add(int,int)", 1, 2) != 3) std::abort();
    // Ended in an order of its own: the server goes first, then the client, then the service.
    server.reset();
    client.reset();
  }
  std::optional<witrpc::Service> service;
  std::optional<witrpc::Client> client;
  std::optional<witrpc::Server> server;
  int sum = 0;
} early;

void statics_work_before_main() {
  CHECK(early.sum == 42);
  CHECK(early.service->call<int>("int Add(int,int)", 2, 3) == 5);
}

} // namespace

int main() {
  watchdog(100);
  RUN(statics_work_before_main);
  return summary();
}
