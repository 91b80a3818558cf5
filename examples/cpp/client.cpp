// The shortest useful client: connect, call, and say what went wrong.
//
//   client ENDPOINT          the server is server.cpp, or `witrpc serve --demo ENDPOINT`
#include <iostream>
#include <witrpc.hpp>

int main(int argc, char **argv) {
  try {
    witrpc::Client client(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100");
    client.connect();
    auto echo = client.service("Demo.IEcho");
    // A method is named by its C# line.
    std::cout << "2 + 3 = " << echo.call<int>("int Add(int a, int b)", 2, 3) << "\n";
    return 0;
  } catch (const witrpc::Error &error) {
    std::cerr << error.code_name() << ": " << error.what() << "\n";
    return 1;
  }
}
