import { redisUrl } from '../config/redis-url.ts'
import { addressOf, askRedis, ping, type RedisProbe } from './redis-session.ts'

/** The server to connect to, and how to see that it is still the right one. */
interface RedisServer {
  url: string
  probe: RedisProbe
}

/** A node that lost touch with most others passes nothing on. */
const inCluster: RedisProbe = {
  command: ['CLUSTER', 'INFO'],
  faultOf: (answer) =>
    /^cluster_state:ok/m.test(String(answer)) ? undefined : 'the node has lost touch with most of its cluster',
}

/** https://redis.io/docs/latest/commands/role/ */
const asMaster: RedisProbe = {
  command: ['ROLE'],
  faultOf: (answer) => (Array.isArray(answer) && answer[0] === 'master' ? undefined : 'it is not the master any more'),
}

async function assertFit(url: string, { command, faultOf }: RedisProbe): Promise<void> {
  const fault = faultOf(await askRedis(url, command))
  if (fault !== undefined) throw new Error(fault)
}

/**
 * Finds the server in use by a URL as in `redisUrl`. One that answers first may be wrong: a sentinel that was cut off names
 * the former master, so each is asked until one leads to a master. Rejects with what each of them said.
 */
export async function findRedis(given: string): Promise<RedisServer> {
  const parsed = redisUrl(given)
  if (parsed.kind === 'one') return { url: parsed.url, probe: ping }
  const faults: string[] = []
  for (const server of parsed.kind === 'cluster' ? parsed.nodes : parsed.sentinels) {
    try {
      if (parsed.kind === 'cluster') {
        await assertFit(server, inCluster)
        return { url: server, probe: inCluster }
      }
      const address = await askRedis(server, ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', parsed.name])
      if (!Array.isArray(address)) throw new Error(`it knows no master ${parsed.name}`)
      const url = parsed.masterUrl(String(address[0]), Number(address[1]))
      await assertFit(url, asMaster)
      return { url, probe: asMaster }
    } catch (fault) {
      const { message, code } = fault as NodeJS.ErrnoException
      faults.push(`${addressOf(server)}: ${message || code}`)
    }
  }
  throw new Error(faults.join('; '))
}
