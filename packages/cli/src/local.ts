import { createLog, type Deps, openDeps, readConfig } from '@wardline/server'

/** Works on the database of this machine's configuration, beside a running service or without one. */
export async function withLocalDatabase<Result>(work: (deps: Deps) => Promise<Result>): Promise<Result> {
  const deps = await openDeps(readConfig(), { log: createLog('silent') })
  try {
    return await work(deps)
  } finally {
    await deps.close()
  }
}
