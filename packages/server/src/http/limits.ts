/** Limits of the HTTP server. */
export const httpLimits = {
  /** An honest client sends its headers in one packet. With Node's default of a minute, idle sockets pile up. */
  headersTimeoutMs: 5_000,
  /** Enough for a request of 1 MiB over a slow connection. */
  requestTimeoutMs: 15_000,
  /** Interval at which Node enforces the two timeouts above. */
  connectionsCheckMs: 1_000,
  /** Longer than the idle timeout of common load balancers, so that they close first. */
  keepAliveMs: 72_000,
  /**
   * A client that reads nothing of its response is disconnected after one to two times this. Longer than the slowest
   * handler, a channel's test, which takes 16 s.
   */
  stallMs: 30_000,
  /** On shutdown, connections of requests that take longer are closed. */
  closeWithinMs: 10_000,
  headerBytes: 8 * 1024,
  /** Bounded by file descriptors. Most of these connections are streams. */
  connections: 20_000,
  /**
   * Connections that the kernel queues until they are accepted. When a fleet is suspended, all agents connect at once
   * to confirm. The kernel drops connections beyond this, and clients retry after a second. Linux caps it at somaxconn.
   */
  backlog: 4_096,
  /** Bounds memory: 20,000 streams of about 15 KiB take 300 MiB. */
  streams: 16_000,
  /** The live stream may be open without a key, so one address must not use all streams. */
  streamsPerAddress: 100,
  /** A client on a slow connection reads this in seconds; one further behind reads at its own pace. */
  unsentBytesPerStream: 64 * 1024,
  /** A thousand clients at the limit above. Beyond it, the streams with the most unsent bytes are cut. */
  unsentBytes: 64 * 1024 * 1024,
} as const
