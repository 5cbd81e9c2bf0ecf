import { fileURLToPath } from 'node:url'
import { build } from 'vite'

// Builds the stories of the component kit into the folder that is named: `node packages/dashboard/stories/build.ts <folder>`.
const root = fileURLToPath(new URL('.', import.meta.url))
process.env.NODE_ENV = 'production'
await build({
  configFile: fileURLToPath(new URL('../vite.config.ts', import.meta.url)),
  root,
  base: '/stories/',
  logLevel: 'error',
  build: { outDir: process.argv[2]!, emptyOutDir: true, manifest: false },
})
