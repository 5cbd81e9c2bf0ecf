// A receiver of enforcement calls, which stops the containers, the Deployment or the secrets of a suspended agent.
//
//   WARDLINE_ENFORCEMENT_SECRET=whsec_… npm run example -- enforcement docker
//
// The levers: docker, kubernetes, vault. The first lines of their files say what each needs.

const lever = process.argv[3] ?? ''
if (!['docker', 'kubernetes', 'vault'].includes(lever)) throw new Error('Name a lever: docker, kubernetes or vault.')
await import(`./${lever}.ts`)
