// A receiver of enforcement calls, which stops the containers of a suspended agent, or disables its keys or identity.
//
//   npm run example -- enforcement docker docker.env
//
// The first argument is a lever: docker, kubernetes, litellm, okta, entra, aws or vault. The second one, which may be
// left out, is a file of settings, as `wardline enforcement add` writes it; the first lines of each lever list them.

import { statSync } from 'node:fs'
import { resolve } from 'node:path'

const levers = ['docker', 'kubernetes', 'litellm', 'okta', 'entra', 'aws', 'vault']
const [lever = '', file] = process.argv.slice(3)
if (!levers.includes(lever)) throw new Error(`Name a lever: ${levers.join(', ')}.`)
if (file !== undefined) {
  // npm starts programs in the folder of the package.
  const path = resolve(process.env.INIT_CWD ?? '.', file)
  if (process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0) {
    throw new Error(`Others on this machine can read ${path}, which contains secrets: run chmod 600 on it.`)
  }
  process.loadEnvFile(path)
}
await import(`./${lever}.ts`)
