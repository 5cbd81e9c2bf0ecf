import type { Deps } from '../../deps.ts'
import type { HeartbeatAcks } from '../instances/instances.ts'
import { acknowledgedStatement } from './suspension-statements.ts'

/**
 * Takes the control versions of heartbeats as acknowledgements. Each version of an instance is looked at once in this
 * process, so that the heartbeats of agents that are not suspended cost no statement.
 */
export function createHeartbeatAcks({ database, config }: Pick<Deps, 'database' | 'config'>): HeartbeatAcks {
  const known = new Map<string, number>()
  return {
    of(heartbeats, now) {
      const news: { id: string; version: number }[] = []
      for (const { instance_id, control_version: version = 0 } of heartbeats) {
        if (version > 0 && known.get(instance_id) !== version) news.push({ id: instance_id, version })
      }
      if (news.length === 0) return undefined
      // In the order of ids: two processes that lock the same rows in two orders would block each other.
      news.sort((a, b) => (a.id < b.id ? -1 : 1))
      return {
        statements: [acknowledgedStatement(database, news, now, 'heartbeat')],
        commit() {
          // Ids that nobody registered must not fill the memory.
          if (known.size >= config.maxInstances) known.clear()
          for (const { id, version } of news) known.set(id, version)
        },
      }
    },
  }
}
