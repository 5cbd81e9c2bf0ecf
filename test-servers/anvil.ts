import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startOnFreePort } from './free-port.ts'
import { type GuardedProcess, startServer } from './guarded-process.ts'

/** A separate chain on 127.0.0.1 that mines blocks on request. */
export interface TestChain extends AsyncDisposable {
  url: string
  /** Calls a JSON-RPC method of the node. */
  ask<Result = unknown>(method: string, ...params: unknown[]): Promise<Result>
}

/** Binary in the package of the platform. Its launcher would start a process that we could not terminate. */
function findBinary(): string {
  const file = createRequire(import.meta.url).resolve('@foundry-rs/anvil-linux-amd64/bin/anvil')
  accessSync(file, constants.X_OK)
  return file
}

/** Returns the reason to skip tests that need a chain; undefined if anvil is installed. */
export function missingAnvil(): string | undefined {
  try {
    findBinary()
    return undefined
  } catch {
    return 'No anvil: @foundry-rs/anvil-linux-amd64 is not installed, which exists for Linux on x64 only'
  }
}

/** Starts chain 31337. Throws if there is no binary or it does not start. */
export async function startAnvil(): Promise<TestChain> {
  const binary = findBinary()
  const folder = mkdtempSync(join(tmpdir(), 'wardline-test-anvil-'))
  let server: GuardedProcess | undefined
  const port = await startOnFreePort(async (port) => {
    await server?.release()
    const address = ['--host', '127.0.0.1', '--port', String(port)]
    const command = [binary, ...address, '--no-mining', '--accounts', '3', '--cache-path', folder]
    server = await startServer(command, { folder, endSignal: 'SIGKILL' }, 'Listening on')
  })
  const url = `http://127.0.0.1:${port}`
  let id = 0
  return {
    url,
    async ask<Result>(method: string, ...params: unknown[]) {
      const body = JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params })
      const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      const { result, error } = (await answer.json()) as { result: Result; error?: { message: string } }
      if (error) throw new Error(`${method}: ${error.message}`)
      return result
    },
    async [Symbol.asyncDispose]() {
      if (server && !server.hasEnded()) process.kill(server.pid, 'SIGKILL')
      await server?.ended
      await server?.release()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
