import type { Heartbeat, HttpAnswer, HttpCall } from '@wardline/contract'
import type { Job } from './jobs.ts'
import type { Services } from './services.ts'

/** The whole service before it listens: nothing reaches it but what this process sends, and no timer runs its jobs. */
export interface UnopenedService {
  /** Sends a request past the network; `createClient` takes it. */
  send(url: URL, call: HttpCall): Promise<HttpAnswer>
  /** Stores a heartbeat of each of these agents, sent with the key, together: one by one would take ten times as long. */
  beat(heartbeats: readonly Heartbeat[], key: string): Promise<void>
  /** Runs periodic jobs once, one after the other. */
  runJobs(...names: string[]): Promise<void>
  /** Resolves when rules, alerts and deliveries have processed what was stored. */
  whenIdle(): Promise<void>
}

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

export function unopenedService(
  send: UnopenedService['send'],
  services: Services,
  jobs: readonly Job[],
): UnopenedService {
  const { keyring, heartbeats, ingest, ruleRunner, dispatcher, enforcement } = services
  return {
    send,

    async beat(beats, key) {
      const principal = keyring.find(key)
      if (!principal) throw new Error('The key of the heartbeats is unknown.')
      await Promise.all(beats.map((heartbeat) => heartbeats.beat(heartbeat, principal, '127.0.0.1')))
    },

    async runJobs(...names) {
      for (const name of names) await jobs.find((job) => job.name === name)!.run()
    },

    async whenIdle() {
      await ingest.whenIdle()
      // The rules begin in the turn after the commit.
      await nextTurn()
      await ruleRunner.whenIdle()
      await Promise.all([dispatcher.whenIdle(), enforcement.whenIdle()])
    },
  }
}
