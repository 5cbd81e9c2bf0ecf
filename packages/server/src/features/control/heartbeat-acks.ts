import type { Deps } from '../../deps.ts'
import type { HeartbeatAcks } from '../instances/instances.ts'
import { acknowledgedStatement } from '../suspensions/suspension-statements.ts'

/**
 * Records the control versions in heartbeats as acknowledgements. This process handles each version of an instance once,
 * so that further heartbeats cost no statement.
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
      // In the order of ids: two processes that lock the same rows in different orders could deadlock.
      news.sort((a, b) => (a.id < b.id ? -1 : 1))
      return {
        statements: [acknowledgedStatement(database, news, now, 'heartbeat')],
        commit() {
          // Unregistered ids must not fill the memory.
          if (known.size >= config.maxInstances) known.clear()
          for (const { id, version } of news) known.set(id, version)
        },
      }
    },
  }
}
