import type { SearchHit } from '@wardline/contract'
import type { Database } from '../../db/database.ts'
import type { Team } from '../../db/teams.ts'
import { readDecoyNames, readDecoyPage } from '../honeypots/decoy-statements.ts'
import { type NamedAgent, readNamed, readNamedOf, readNamePage, readWithWords } from '../instances/fleet-statements.ts'
import { allTags } from '../instances/tags.ts'
import type { Source } from './name-index.ts'
import type { Entry } from './search-index.ts'

/** Characters of a label, path or name that are shown. */
const maxShown = 200

export const nothing = { detail: '', instance_id: null, seq: null, at: null }

/** Reads the entries of these ids as they are now. */
type ReadEntries = (caller: string, ids: readonly string[]) => Promise<Entry[]>

type Names = Source & { entries: ReadEntries }

function agentEntry(row: NamedAgent): Entry {
  const hit = { ...nothing, id: row.id, title: row.name, detail: allTags(row).join(' ') }
  return { hit, text: `${hit.id} ${hit.title} ${hit.detail}` }
}

interface NamedDecoy {
  id: string
  path: string | null
  key_type: string | null
  label: string | null
  instance_id: string
}

function decoyEntry({ id, path, key_type, label, instance_id }: NamedDecoy): Entry {
  const title = (path ?? `${key_type} key`).slice(0, maxShown)
  const detail = (label ?? '').slice(0, maxShown)
  return { hit: { ...nothing, id, title, detail, instance_id }, text: `${title} ${detail} ${instance_id}` }
}

/** A hit while it is only indexed: its other fields are read when it is found. */
const indexedHit = (id: string, title: string, instance_id: string | null = null): SearchHit => ({
  ...{ ...nothing, id, title, instance_id },
})

export const agentNames = (database: Database): Names => ({
  kind: 'agent',
  maxBytes: 64 * 1024 ** 2,
  read: (page) => database.scan('search', (db) => readNamePage(database, db, page)),
  // Tags are words between the signs of JSON.
  entryOf: ([id, name, ...tags]) => ({ hit: indexedHit(id!, name!), text: `${id} ${name} ${tags.join(' ')}` }),
  entries: async (caller, ids) => (await database.scan(caller, (db) => readNamedOf(database, db, ids))).map(agentEntry),
})

export const decoyNames = (database: Database): Names => ({
  kind: 'decoy',
  maxBytes: 32 * 1024 ** 2,
  read: (page) => database.scan('search', (db) => readDecoyPage(database, db, page)),
  entryOf: ([id, path, key_type, label, instance_id]) => {
    const { hit, text } = decoyEntry({
      id: id!,
      path: path!,
      key_type: key_type!,
      label: label!,
      instance_id: instance_id!,
    })
    return { hit: indexedHit(hit.id, hit.title, hit.instance_id), text }
  },
  entries: async (caller, ids) => (await database.scan(caller, (db) => readDecoyNames(db, ids))).map(decoyEntry),
})

/** Reads agents whose id begins so and, if there is none, those with all these words, as far as the database finds them. */
export async function readAgents(
  database: Database,
  caller: string,
  { prefix, words, limit, team }: { prefix: string; words: readonly string[]; limit: number; team: Team },
): Promise<Entry[]> {
  const rows = await database.scan(caller, async (db) => {
    const found = /^[a-z0-9_-]+$/.test(prefix) ? await readNamed(db, { prefix, limit, team }) : []
    return found.length > 0 || words.length === 0 ? found : readWithWords(db, words, { limit, team })
  })
  return rows.map(agentEntry)
}
