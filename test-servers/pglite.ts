import { PGlite } from '@electric-sql/pglite'
import { openBridge } from './pglite-bridge.ts'

/** An empty database of PostgreSQL compiled for the process itself, for the driver as if it were a server. */
export interface TestPglite extends AsyncDisposable {
  url: string
}

// Making an instance takes a second or two; emptying one, a few milliseconds.
const free: PGlite[] = []
/** The files of a fresh database: the second instance of a process starts from them. */
let template: ReturnType<PGlite['dumpDataDir']> | undefined

async function makeInstance(): Promise<PGlite> {
  if (template) return PGlite.create({ loadDataDir: await template })
  const made = PGlite.create()
  template = made.then((db) => db.dumpDataDir('none'))
  return made
}

export async function openPglite(): Promise<TestPglite> {
  const db = free.pop() ?? (await makeInstance())
  const bridge = await openBridge(db)
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${bridge.port}/postgres`,
    async [Symbol.asyncDispose]() {
      await bridge[Symbol.asyncDispose]()
      await db.exec('drop schema public cascade; create schema public')
      await db.exec('discard all')
      free.push(db)
    },
  }
}
