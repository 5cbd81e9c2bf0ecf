import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { RedisClient } from '@redis/client'
import { startOnFreePort } from './free-port.ts'
import { startServer } from './guarded-process.ts'
import { findRedisBinary, startRedis, type TestRedis } from './redis.ts'

/** Sends one command over a separate connection. */
export async function redisCommand(port: number, ...command: string[]): Promise<unknown> {
  const client = new RedisClient({ RESP: 2, socket: { host: '127.0.0.1', port, reconnectStrategy: false } })
  client.on('error', () => {})
  await client.connect()
  try {
    return await client.sendCommand(command)
  } finally {
    client.destroy()
  }
}

interface Sentinel {
  port: number
  stop(): Promise<void>
}

/** A sentinel keeps what it learns in its configuration file. */
async function startSentinel(masterPort: number, quorum: number): Promise<Sentinel> {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-test-sentinel-'))
  const file = join(folder, 'sentinel.conf')
  let stop = async () => {}
  const port = await startOnFreePort(async (port) => {
    const lines = [
      `port ${port}`,
      'bind 127.0.0.1',
      `sentinel monitor wardline 127.0.0.1 ${masterPort} ${quorum}`,
      'sentinel down-after-milliseconds wardline 500',
      'sentinel failover-timeout wardline 3000',
    ]
    writeFileSync(file, `${lines.join('\n')}\n`)
    const options = { folder, endSignal: 'SIGKILL' } as const
    const server = await startServer([findRedisBinary(), file, '--sentinel'], options, 'Sentinel ID is')
    stop = async () => {
      if (!server.hasEnded()) process.kill(server.pid, 'SIGKILL')
      await server.ended
      await server.release()
      rmSync(folder, { recursive: true, force: true })
    }
  })
  return { port, stop }
}

async function reached(what: string, isReached: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000
  while (!(await isReached())) {
    if (performance.now() > deadline) throw new Error(`${what} did not come about`)
    await pause(20)
  }
}

/** A master, a replica and three sentinels of which two decide. */
export async function startRedisWithSentinels() {
  const [first, second] = await Promise.all([startRedis(), startRedis()])
  const servers = [first, second]
  await redisCommand(second.port, 'REPLICAOF', '127.0.0.1', String(first.port))
  const sentinels = await Promise.all([1, 2, 3].map(() => startSentinel(first.port, 2)))
  const masterPort = async () => {
    const found = await redisCommand(sentinels[0]!.port, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'wardline')
    return Number((found as string[])[1])
  }
  // Each knows the replica and the others, or it would not begin a failover.
  for (const { port } of sentinels) {
    const counts = async () => {
      const said = (await redisCommand(port, 'SENTINEL', 'MASTER', 'wardline')) as string[]
      const countOf = (name: string) => Number(said[said.indexOf(name) + 1])
      return countOf('num-slaves') === 1 && countOf('num-other-sentinels') === 2
    }
    await reached('a complete group of sentinels', counts)
  }
  return {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/wardline`,
    sentinels,
    /** The current master, as the sentinels know it. */
    async master(): Promise<TestRedis> {
      const port = await masterPort()
      return servers.find((server) => server.port === port)!
    },
    /** Resolves once the sentinels name another master than this one. */
    replaced: ({ port }: TestRedis) => reached('another master', async () => (await masterPort()) !== port),
    /** Makes the sentinels choose another master although this one runs. */
    failOver: () => redisCommand(sentinels[0]!.port, 'SENTINEL', 'FAILOVER', 'wardline'),
    async stop() {
      for (const server of [...sentinels, ...servers]) await server.stop()
    },
  }
}

/** A cluster of three masters, each with a third of the slots. */
export async function startRedisCluster() {
  const nodes = await Promise.all(
    [1, 2, 3].map(() =>
      startRedis({
        settings: [
          '--cluster-enabled',
          'yes',
          '--cluster-require-full-coverage',
          'no',
          '--cluster-node-timeout',
          '1000',
        ],
      }),
    ),
  )
  const slots = [0, 5_461, 10_923, 16_384]
  for (const [at, { port }] of nodes.entries()) {
    await redisCommand(port, 'CLUSTER', 'ADDSLOTSRANGE', String(slots[at]), String(slots[at + 1]! - 1))
    if (at > 0) await redisCommand(nodes[0]!.port, 'CLUSTER', 'MEET', '127.0.0.1', String(port))
  }
  for (const { port } of nodes) {
    const isWhole = async () => {
      const said = String(await redisCommand(port, 'CLUSTER', 'INFO'))
      return /cluster_state:ok/.test(said) && /cluster_known_nodes:3/.test(said)
    }
    await reached('a whole cluster', isWhole)
  }
  return {
    nodes,
    urlOf: (ordered: readonly TestRedis[]) => `redis://${ordered.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    async stop() {
      for (const node of nodes) await node.stop()
    },
  }
}
