import type { Heartbeat } from '@wardline/contract'

/** A heartbeat and its sender, who owns the instance if it is new. */
export interface Beat {
  heartbeat: Heartbeat
  registers: { owner: string; max: number | null; tags: string | null }
  /** Instance ids, or prefixes ending in *, to which its key is bound; null: none. */
  instances: readonly string[] | null
  /** The key that sent it. */
  keyId: string
  address?: string | null
  /** Whether the key is one of a supervisor. */
  supervises?: boolean
  /** The heartbeat of the agent's supervisor in the same batch, when `heartbeat` is of the agent. */
  beside?: Beat
}

export const isOfSupervisor = ({ heartbeat }: Beat) => heartbeat.supervisor !== undefined

/**
 * Joins the heartbeats of one instance in a batch, since a statement must not change a row twice: of the agent and of its
 * supervisor, the latest one of each.
 */
export function joinBeats(beats: readonly Beat[]): Map<string, Beat> {
  const joined = new Map<string, Beat>()
  for (const beat of beats) {
    const id = beat.heartbeat.instance_id
    const before = joined.get(id)
    const other = before && (isOfSupervisor(beat) === isOfSupervisor(before) ? before.beside : before)
    if (!other) joined.set(id, beat)
    else if (isOfSupervisor(beat)) joined.set(id, { ...before!, beside: beat })
    else joined.set(id, { ...beat, beside: other })
  }
  return joined
}

/** Who leaves: 0 nobody, 1 the agent, 2 its supervisor, which ends what the agent left. */
export const leavingOf = (beat: Beat): 0 | 1 | 2 => {
  const supervisor = isOfSupervisor(beat) ? beat : beat.beside
  if (supervisor) return supervisor.heartbeat.leaving ? 2 : 0
  return beat.heartbeat.leaving ? 1 : 0
}

export const isSupervisedBy = (beat: Beat | undefined): boolean =>
  beat !== undefined && isOfSupervisor(beat) && beat.supervises === true

/** Returns the highest control version that the agent or its supervisor has applied; undefined if neither sent one. */
export function controlVersionOf({ heartbeat, beside }: Beat): number | undefined {
  const versions = [heartbeat, ...(beside ? [beside.heartbeat] : [])].flatMap(
    ({ control_version }) => control_version ?? [],
  )
  return versions.length === 0 ? undefined : Math.max(...versions)
}
