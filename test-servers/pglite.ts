import { PGlite } from '@electric-sql/pglite'
import { openBridge } from './pglite-bridge.ts'

/** An empty PostgreSQL database compiled to WebAssembly; the driver uses it like a server. */
export interface TestPglite extends AsyncDisposable {
  url: string
}

// Creating an instance takes one or two seconds, emptying one a few milliseconds.
const free: PGlite[] = []
/** Files of a new database, from which further instances of the process start. */
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
