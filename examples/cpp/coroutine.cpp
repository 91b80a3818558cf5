// Calls from coroutines (C++20): no thread waits while an answer is on its way.
//
//   coroutine ENDPOINT          the server is server.cpp
#include <iostream>
#include <witrpc.hpp>

static witrpc::Task<int> sum_up_to(const witrpc::Service &echo, int n) {
  int sum = 0;
  for (int i = 1; i <= n; ++i) sum = co_await echo.co_call<int>("int Add(int a, int b)", sum, i);
  co_return sum;
}

int main(int argc, char **argv) {
  try {
    witrpc::Client client(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100");
    client.connect();
    auto echo = client.service("Demo.IEcho");
    std::cout << "1 + 2 + ... + 100 = " << sum_up_to(echo, 100).get() << "\n";
    return 0;
  } catch (const witrpc::Error &error) {
    std::cerr << error.code_name() << ": " << error.what() << "\n";
    return 1;
  }
}
