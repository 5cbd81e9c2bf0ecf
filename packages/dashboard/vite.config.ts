import { fileURLToPath } from 'node:url'
import react from '@vitejs/plugin-react'
import { defaultClientConditions, defineConfig, type Plugin } from 'vite'

/** A node of a syntax tree (github.com/estree/estree). */
interface Node {
  type: string
  start: number
  end: number
  key?: { name?: string }
  value?: { type: string }
}

/** Bounds of the properties of an endpoint that only OpenAPI shows: its summary, and what its failures mean. */
function* documentationIn(node: unknown): Generator<[start: number, end: number]> {
  if (typeof node !== 'object' || node === null) return
  const { type, key, value, start, end } = node as Node
  // A schema may have a property of this name, whose value is a call.
  const isText = key?.name === 'summary' && /^(Template)?Literal$/.test(value?.type ?? '')
  const isTexts = key?.name === 'failures' && value?.type === 'ObjectExpression'
  if (type === 'Property' && (isText || isTexts)) return yield [start, end]
  for (const child of Object.values(node)) yield* documentationIn(child)
}

/** Leaves out what no page shows, some kilobytes of the first screen. */
const withoutDocumentation: Plugin = {
  name: 'without-documentation',
  enforce: 'post',
  transform(code, id) {
    if (!/packages\/contract\/src\/[\w-]+\.ts$/.test(id)) return null
    let kept = code
    for (const [start, end] of [...documentationIn(this.parse(code))].reverse()) {
      kept = kept.slice(0, start) + kept.slice(end).replace(/^\s*,/, '')
    }
    return { code: kept, map: null }
  },
}

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  plugins: [react(), withoutDocumentation],
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
