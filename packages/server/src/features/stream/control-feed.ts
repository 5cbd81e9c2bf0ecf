import type { Socket } from 'node:net'
import type { ControlChange } from '@wardline/contract'
import { readTeam, type Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { namedFrame } from '../../http/sse.ts'
import type { StreamBacklog } from '../../http/stream-backlog.ts'
import { readControlChanges } from '../audit/control-changes.ts'
import { keyNames } from '../keys/key-names.ts'

const pageRows = 100
/**
 * A client with more unsent bytes is disconnected: one page of its replay and as much again. After reconnecting, it
 * reads the list.
 */
const maxUnsentBytes = 128 * 1024

const changeFrame = (change: ControlChange) => namedFrame('control', JSON.stringify({ type: 'control', data: change }))

/**
 * Sends kills and resumes to the streams that request them. The audit log is the source: a control message only
 * triggers a read of it, so lost, duplicated or forged messages never show a false change.
 */
export class ControlFeed {
  readonly #deps: Deps
  readonly #backlog: StreamBacklog
  readonly #sockets = new Map<Socket, Team>()
  /** Last audit seq read. */
  #seq = 0
  #isOpen = false
  #isDue = false
  #reading: Promise<void> | undefined

  constructor(deps: Deps, backlog: StreamBacklog) {
    this.#deps = deps
    this.#backlog = backlog
    deps.bus.onControl(() => {
      if (this.#sockets.size === 0) return
      this.reconcile().catch((fault) =>
        deps.log.warn({ err: fault }, 'kills and resumes could not be read for the stream; retrying in a second'),
      )
    })
  }

  /** Starts after the newest change. */
  async open(): Promise<void> {
    const [newest] = await readControlChanges(this.#deps.database.db, keyNames, {}, 'newest', 1)
    this.#seq = newest?.seq ?? 0
    this.#isOpen = true
  }

  /** Adds a client for all further changes. It may receive a change from the last second twice. */
  add(socket: Socket, team: Team): void {
    this.#sockets.set(socket, team)
  }

  remove(socket: Socket): void {
    this.#sockets.delete(socket)
  }

  /** Reads and sends the changes that any process committed since the last read. */
  reconcile(): Promise<void> {
    this.#isDue = true
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  close(): void {
    this.#isOpen = false
  }

  async #read(): Promise<void> {
    while (this.#isDue && this.#isOpen) {
      this.#isDue = false
      const changes = await readControlChanges(
        this.#deps.database.db,
        keyNames,
        { after: this.#seq },
        'oldest',
        pageRows,
      )
      if (changes.length === 0) continue
      const ofTeams = await this.#changesOfTeams(changes)
      this.#seq = changes.at(-1)!.seq
      this.#send(Buffer.from(changes.map(changeFrame).join('')), ofTeams)
      if (changes.length === pageRows) this.#isDue = true
    }
  }

  /** Returns the frames for each team, by the list of its tags: sockets of the same caller have the same list. */
  async #changesOfTeams(changes: readonly ControlChange[]): Promise<Map<Team, Buffer>> {
    const ids = [...new Set(changes.map(({ instance_id }) => instance_id))]
    const ofTeams = new Map<Team, Buffer>()
    for (const team of new Set(this.#sockets.values())) {
      if (!team) continue
      const members = await readTeam(this.#deps.database.db, team, ids)
      const own = changes.filter(({ instance_id }) => members.has(instance_id))
      ofTeams.set(team, Buffer.from(own.map(changeFrame).join('')))
    }
    return ofTeams
  }

  /** A socket of a team that was added in the meantime reads these changes from the list. */
  #send(all: Buffer, ofTeams: Map<Team, Buffer>): void {
    for (const [socket, team] of this.#sockets) {
      const bytes = team ? ofTeams.get(team) : all
      if (!bytes?.length) continue
      if (socket.writableLength > maxUnsentBytes) this.#backlog.cut(socket, 'stalled')
      else this.#backlog.write(socket, bytes)
    }
  }
}
