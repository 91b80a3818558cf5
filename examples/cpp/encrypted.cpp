// An encrypted connection with an access token, which is asked for anew whenever the client
// connects.
//
//   encrypted ENDPOINT TOKEN     the server is server.cpp with a token
#include <iostream>
#include <stdexcept>
#include <witrpc.hpp>

int main(int argc, char **argv) {
  const std::string token = argc > 2 ? argv[2] : "";
  witrpc::ClientOptions options(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100");
  // The provider may block: it may fetch the token from wherever tokens come.
  options.encryption().token_provider([token] {
    if (token.empty()) throw std::runtime_error("there is no token today");
    return token;
  });
  witrpc::Client client(options);
  // Without exceptions: functions that begin with try_ return the error.
  if (auto connected = client.try_connect(); !connected) {
    const auto &error = connected.error();
    std::cerr << (error.code() == witrpc::Status::Unauthorized ? "the server refused the token"
                                                               : error.what())
              << "\n";
    return 1;
  }
  auto sum = client.service("Demo.IEcho").try_call<int>("int Add(int a, int b)", 20, 22);
  if (!sum) {
    std::cerr << sum.error().what() << "\n";
    return 1;
  }
  std::cout << "20 + 22 = " << *sum << ", and nobody could listen\n";
}
