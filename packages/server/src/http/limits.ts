/** Bounds of the HTTP server, each with its reason. */
export const httpLimits = {
  /** Headers come in one packet from an honest client; Node's minute lets idle sockets pile up. */
  headersTimeoutMs: 5_000,
  /** A whole request of at most 1 MiB, even from a slow line. */
  requestTimeoutMs: 15_000,
  /** How often Node looks for sockets that broke the two limits above. */
  connectionsCheckMs: 1_000,
  /** Longer than the idle time of common load balancers, so that they close first. */
  keepAliveMs: 72_000,
  /** A client that takes nothing of its answer is cut after once to twice this; the slowest handler, a channel's test, takes 16 s. */
  stallMs: 30_000,
  headerBytes: 8 * 1024,
  /** File descriptors are finite; streams hold most of these. */
  connections: 20_000,
  /**
   * Connections that the kernel holds until they are accepted: a fleet that was stopped confirms at once, each agent by
   * a connection. Beyond it the kernel drops them, and they come again after a second. Linux lowers it to somaxconn.
   */
  backlog: 4_096,
  /** 20,000 streams at some 15 KiB are 300 MiB. */
  streams: 16_000,
  /** The live stream may need no key: one address must not take every place. */
  streamsPerAddress: 100,
  /** What a client on a slow line takes in seconds; one that is behind by more reads at its own pace. */
  unsentBytesPerStream: 64 * 1024,
  /** A thousand clients at the bound above; with more of them the largest are cut. */
  unsentBytes: 64 * 1024 * 1024,
} as const
