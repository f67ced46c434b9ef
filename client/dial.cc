#include "client/dial.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

namespace heed {
namespace {

constexpr std::string_view kUnix = "unix:";

int NewSocket(int family) {
  const int descriptor = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 3, .tv_usec = 0};
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));  // connect() heeds it, too
  return descriptor;
}

// -1 if nobody takes it.
int Connected(const sockaddr* to, socklen_t size) {
  const int descriptor = NewSocket(to->sa_family);
  if (descriptor >= 0 && connect(descriptor, to, size) == 0) return descriptor;
  close(descriptor);
  return -1;
}

int DialPath(std::string_view path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof(to.sun_path)) return -1;
  std::ranges::copy(path, to.sun_path);
  return Connected(reinterpret_cast<const sockaddr*>(&to), sizeof(to));
}

int DialHost(const std::string& host, const std::string& port) {
  const addrinfo hints{.ai_flags = AI_NUMERICSERV, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (const int descriptor = Connected(each->ai_addr, each->ai_addrlen); descriptor >= 0) return descriptor;
  }
  return -1;
}

}  // namespace

std::string HostOf(std::string_view address) {
  if (address.starts_with(kUnix)) return "localhost";
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::string(host);
}

std::optional<Connection> Connection::Dial(const std::string& address) {
  const int descriptor = address.starts_with(kUnix)
                             ? DialPath(std::string_view(address).substr(kUnix.size()))
                             : DialHost(HostOf(address), address.substr(address.rfind(':') + 1));
  if (descriptor < 0) return std::nullopt;
  return Connection(descriptor);
}

Connection::~Connection() {
  if (descriptor_ >= 0) close(descriptor_);
}

Connection::Connection(Connection&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), closed_(other.closed_) {}

bool Connection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string Connection::Receive() {
  char bytes[16384];
  ssize_t got;
  do {
    got = recv(descriptor_, bytes, sizeof(bytes), 0);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return std::string(bytes, static_cast<size_t>(got));
  closed_ = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  return "";
}

}  // namespace heed
