// De-duplication: a call that must not run twice is given an id and made again, as a program does
// that has crashed before it knew the answer. The server recognises it, and answers from its
// memory.
//
//   dedup ENDPOINT          the server is server.cpp
#include <iostream>
#include <witrpc.hpp>

// A client of its own each time, as after a crash.
static int count_up(const std::string &endpoint, const witrpc::Guid &id) {
  witrpc::ClientOptions options(endpoint);
  options.reconnect().retry();
  witrpc::Client client(options);
  client.connect();
  witrpc::CallOptions once;
  once.deduplicated().invocation_id(id);
  return client.service("Demo.IEcho").call<int>(once, "int CountUp(int by)", 1);
}

int main(int argc, char **argv) {
  const std::string endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5100";
  try {
    // Made once for each thing to be done, and kept with it.
    const auto id = witrpc::Guid::random();
    const int first = count_up(endpoint, id), again = count_up(endpoint, id);
    const int other = count_up(endpoint, witrpc::Guid::random());
    std::cout << "counted " << first << ", with the same id again " << again
              << ", with another one " << other << "\n";
    return again == first && other == first + 1 ? 0 : 1;
  } catch (const witrpc::Error &error) {
    // The outcome says whether it may have run.
    std::cerr << error.what()
              << (error.outcome() == witrpc::Outcome::Unknown ? ": it may have run\n" : "\n");
    return 1;
  }
}
