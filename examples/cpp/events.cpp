// Events: subscribe, have the server raise some, and wait for the last one.
//
//   events ENDPOINT          the server is server.cpp
#include <future>
#include <iostream>
#include <witrpc.hpp>

int main(int argc, char **argv) {
  try {
    witrpc::ClientOptions options(argc > 1 ? argv[1] : "tcp://127.0.0.1:5100");
    options.reconnect_fleet(); // a subscription outlives reconnections
    witrpc::Client client(options);
    auto echo = client.service("Demo.IEcho");
    std::promise<void> last;
    // Runs on the client's callback thread, one event after the other.
    auto progress = echo.subscribe("event Action<int> Progress", [&last](int step) {
      std::cout << "step " << step << "\n";
      if (step == 3) last.set_value();
    });
    client.connect();
    echo.call("void Work(int steps)", 3);
    last.get_future().wait();
    return 0;
  } catch (const witrpc::Error &error) {
    std::cerr << error.code_name() << ": " << error.what() << "\n";
    return 1;
  }
}
