// A receiver of enforcement calls, which stops the containers, the Deployment or the secrets of a suspended agent.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… npm run example -- enforcement docker
//
// The argument is docker, kubernetes or vault. The first lines of each file list its settings.

const lever = process.argv[3] ?? ''
if (!['docker', 'kubernetes', 'vault'].includes(lever)) throw new Error('Name a lever: docker, kubernetes or vault.')
await import(`./${lever}.ts`)
