// The same in C++. The header is taken in twice, by two names.
#include <witrpc/client.hpp>
#include <witrpc.hpp>
#include <iostream>

struct Pair {
  int A = 0, B = 0;
};
WITRPC_FIELDS(Pair, A, B)

int main() {
  witrpc::Implementation implementation("Demo.IX");
  implementation.handle("int Add(Demo.Pair pair)", [](const Pair &pair) { return pair.A + pair.B; });
  witrpc::ServerOptions options("tcp://127.0.0.1:0");
  options.serve(implementation);
  const witrpc::Server server(options);
  const witrpc::Client client(server.endpoint());
  client.connect();
  const auto service = client.service("Demo.IX");
  const int sum = service.call<int>("int Add(Demo.Pair)", Pair{ 3, 4 });
  std::cout << "libwitrpc " << witrpc::version() << ": " << sum << "\n";
  return sum == 7 ? 0 : 1;
}
