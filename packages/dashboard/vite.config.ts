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
    // data: URLs are not 'self', the only origin that the CSP allows.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    reportCompressedSize: false,
  },
  // For `npx vite packages/dashboard`: forwards API requests to a local service.
  server: { proxy: { '/api': 'http://127.0.0.1:4747' } },
})
