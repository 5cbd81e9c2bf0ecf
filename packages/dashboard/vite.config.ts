import { fileURLToPath } from 'node:url'
import react from '@vitejs/plugin-react'
import { defaultClientConditions, defineConfig } from 'vite'

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  plugins: [react()],
  resolve: { conditions: ['wardline-source', ...defaultClientConditions] },
  worker: { format: 'es' },
  build: {
    target: 'es2023',
    // Data addresses are not from 'self', the only origin that the policy of the page allows.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    reportCompressedSize: false,
  },
  // `npx vite packages/dashboard`: a service that runs beside it answers.
  server: { proxy: { '/api': 'http://127.0.0.1:4747' } },
})
