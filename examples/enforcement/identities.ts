// Shared by the levers that disable an identity: a key, an app, a role. They need
//
//   IDENTITIES  a JSON file { "<agent>": "<identity>" } or { "<agent>": ["<identity>", …] }, written by you
//   HELD_FILE   where the receiver notes what it has disabled (default: IDENTITIES with .held appended)
//
// A resume enables only what the receiver has disabled, and only once no other suspended agent has the same identity.

import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { deadline, queues, serve, setting } from './verify.ts'

export interface Lever {
  /** Asks the provider; throws if it does not know the identity. */
  isDisabled(identity: string): Promise<boolean>
  disable(identity: string): Promise<void>
  /** Ends what the identity has open. Called for each suspension, as an earlier attempt may have failed in between. */
  revoke?(identity: string): Promise<void>
  enable(identity: string): Promise<void>
}

interface Held {
  /** Suspended agents that have the identity. */
  by: string[]
  /** Whether this receiver disabled it; false: it was disabled before. */
  ours: boolean
}

const file = setting('IDENTITIES')
const heldFile = setting('HELD_FILE', `${file}.held`)
/** Milliseconds between two reads of a change that the provider has not copied to all its machines yet. */
const pauseMs = 500

/** Reads the file for each call, so that new agents need no restart. */
function identities(): Map<string, string[]> {
  const listed = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string | string[]>
  return new Map(Object.entries(listed).map(([agent, value]) => [agent, [value].flat()]))
}

const held = new Map<string, Held>(existsSync(heldFile) ? JSON.parse(readFileSync(heldFile, 'utf8')) : [])

function save(): void {
  const draft = `${heldFile}.part`
  writeFileSync(draft, JSON.stringify([...held]), { mode: 0o600 })
  renameSync(draft, heldFile)
}

/** Resolves once the provider shows the change; rejects when the time of the call is over. */
async function shown(lever: Lever, identity: string, isDisabled: boolean): Promise<void> {
  while ((await lever.isDisabled(identity)) !== isDisabled) await pause(pauseMs, undefined, { signal: deadline() })
}

async function suspend(lever: Lever, agent: string, identity: string): Promise<void> {
  const isDisabled = await lever.isDisabled(identity)
  const { by, ours } = held.get(identity) ?? { by: [], ours: false }
  // Noted before the change: after a crash in between, a resume still enables it.
  held.set(identity, { by: [...new Set([...by, agent])], ours: ours || !isDisabled })
  save()
  if (!isDisabled) {
    await lever.disable(identity)
    await shown(lever, identity, true)
  }
  await lever.revoke?.(identity)
}

async function resume(lever: Lever, agent: string, identity: string): Promise<void> {
  const { by, ours } = held.get(identity) ?? { by: [], ours: false }
  const others = by.filter((other) => other !== agent)
  if (others.length > 0) held.set(identity, { by: others, ours })
  if (await lever.isDisabled(identity)) {
    if (others.length > 0) {
      save()
      throw new Error(`${identity} stays disabled: ${others.join(', ')} is suspended and has it too`)
    }
    if (!ours) throw new Error(`${identity} was not disabled by this receiver: enable it yourself`)
    await lever.enable(identity)
    await shown(lever, identity, false)
  }
  if (others.length === 0) held.delete(identity)
  save()
}

/** Listens for calls and moves the lever for each identity of the agent. */
export function serveIdentities(lever: Lever): void {
  const inTurn = queues()
  serve(
    async ({ action, instance_id: agent }) => {
      // An identity that was removed from the file since is enabled all the same.
      const ours = action === 'resume' ? [...held].filter(([, { by }]) => by.includes(agent)).map(([id]) => id) : []
      const ids = new Set([...(identities().get(agent) ?? []), ...ours])
      // Fail if none is listed: nothing was disabled, which must not look like a success.
      if (ids.size === 0) throw new Error(`${file} lists no identity of ${agent}`)
      const move = action === 'suspend' ? suspend : resume
      const moves = [...ids].map((identity) => inTurn(identity, () => move(lever, agent, identity)))
      // One that fails does not keep the others from being disabled.
      const failed = (await Promise.allSettled(moves)).find((one) => one.status === 'rejected')
      if (failed) throw failed.reason
    },
    async () => {
      const [first] = [...identities().values()].flat()
      if (first === undefined) throw new Error(`${file} lists no identity`)
      save()
      await lever.isDisabled(first)
    },
  )
}
