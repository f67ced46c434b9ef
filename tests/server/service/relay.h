// A wire that can be cut: takes one connection and passes its bytes on to another port, both ways. The first
// `hung_up` connections it ends at once.
#ifndef HEED_TESTS_SERVER_SERVICE_RELAY_H_
#define HEED_TESTS_SERVER_SERVICE_RELAY_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/log/check.h"

namespace heed {

class Relay {
 public:
  explicit Relay(int target, int hung_up = 0)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), hung_up_(hung_up) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    CHECK_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    CHECK_EQ(listen(listener_, 1), 0);
    CHECK_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    server_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address = Loopback(target);
    CHECK_EQ(connect(server_, reinterpret_cast<sockaddr*>(&address), size), 0);
    thread_ = std::jthread([this] { Run(); });
  }
  ~Relay() {
    Cut();
    thread_.join();
    for (int descriptor : {listener_, server_}) close(descriptor);
  }

  int port() const { return port_; }
  void Cut() {
    shutdown(listener_, SHUT_RDWR);
    shutdown(server_, SHUT_RDWR);
  }

 private:
  static sockaddr_in Loopback(int port) {
    return {.sin_family = AF_INET,
            .sin_port = htons(static_cast<uint16_t>(port)),
            .sin_addr = {htonl(INADDR_LOOPBACK)},
            .sin_zero = {}};
  }

  void Run() {
    for (int i = 0; i < hung_up_; ++i) close(accept(listener_, nullptr, nullptr));
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    std::jthread back([&] {
      Pass(server_, client);
      shutdown(client, SHUT_RDWR);
    });
    Pass(client, server_);
    back.join();
    close(client);
  }

  static void Pass(int from, int to) {
    char bytes[4096];
    for (ssize_t n; (n = read(from, bytes, sizeof(bytes))) > 0;) {
      if (send(to, bytes, n, MSG_NOSIGNAL) != n) return;
    }
  }

  const int listener_, hung_up_;
  int server_, port_ = 0;
  std::jthread thread_;
};

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SERVICE_RELAY_H_
