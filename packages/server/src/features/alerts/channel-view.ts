import type { ChannelView } from '@wardline/contract'
import { isoTime } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import { AppError } from '../../errors.ts'
import { optionsOf } from './channel-options.ts'
import { countMessages } from './channel-queries.ts'
import { type ChannelRow, readChannelRows } from './directory-queries.ts'
import type { ChannelDirectory } from './open-directory.ts'
import { readAlertHead } from './plan-queries.ts'

const timeOrNull = (epochMs: number | null) => (epochMs === null ? null : isoTime(Number(epochMs)))

interface Backlog {
  waiting: ReadonlyMap<string, number>
  dead: ReadonlyMap<string, number>
  newestAlert: number
}

function stateOf({ enabled, failing_since }: ChannelRow, opens: boolean): ChannelView['state'] {
  if (enabled === 0) return 'disabled'
  return failing_since === null && opens ? 'ok' : 'failing'
}

function viewOf(row: ChannelRow, { waiting, dead, newestAlert }: Backlog, opens: boolean): ChannelView {
  const { id, name, type, managed_by, destination } = row
  return {
    id,
    name,
    type,
    managed_by,
    destination,
    ...optionsOf(row),
    state: stateOf(row, opens),
    waiting: waiting.get(id) ?? 0,
    dead: dead.get(id) ?? 0,
    behind: row.enabled === 0 ? 0 : Math.max(0, newestAlert - Number(row.planned_seq)),
    last_delivered_at: timeOrNull(row.last_delivered_at),
    last_error: opens ? row.last_error : 'The settings do not open: replace them, or restore the master secret.',
    last_error_at: timeOrNull(row.last_error_at),
  }
}

/** All channels and how they fare, oldest first. */
export async function listChannels(db: Db, directory: ChannelDirectory): Promise<ChannelView[]> {
  await directory.refresh()
  const known = new Set(directory.current.channels.map(({ id }) => id))
  const rows = await readChannelRows(db)
  const backlog = {
    waiting: await countMessages(db, 'pending'),
    dead: await countMessages(db, 'dead'),
    newestAlert: await readAlertHead(db),
  }
  return rows.filter((row) => directory.has(row)).map((row) => viewOf(row, backlog, known.has(row.id)))
}

/** One channel. Throws AppError `not_found`. */
export async function viewChannel(db: Db, directory: ChannelDirectory, id: string): Promise<ChannelView> {
  const found = (await listChannels(db, directory)).find((channel) => channel.id === id)
  if (!found) throw new AppError('not_found', 'There is no channel with this id.')
  return found
}
