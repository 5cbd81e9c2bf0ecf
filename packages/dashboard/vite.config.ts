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

/** Bounds of the properties that only OpenAPI shows: summaries, what failures mean, and descriptions within schemas. */
function* documentationIn(node: unknown, isInCall = false): Generator<[start: number, end: number]> {
  if (typeof node !== 'object' || node === null) return
  const { type, key, value, start, end } = node as Node
  // A schema may have a property of this name, whose value is a call.
  const isLiteral = /^(Template)?Literal$/.test(value?.type ?? '')
  const isText = isLiteral && (key?.name === 'summary' || (isInCall && key?.name === 'description'))
  const isTexts = key?.name === 'failures' && value?.type === 'ObjectExpression'
  if (type === 'Property' && (isText || isTexts)) return yield [start, end]
  for (const child of Object.values(node)) yield* documentationIn(child, isInCall || type === 'CallExpression')
}

/** Files whose descriptions are shown: the hints of the form for channels. */
const shownDescriptions = /alert-channels\.ts$/

/** Leaves out what no page shows, some kilobytes of the first screen. */
const withoutDocumentation: Plugin = {
  name: 'without-documentation',
  enforce: 'post',
  transform(code, id) {
    if (!/packages\/contract\/src\/[\w-]+\.ts$/.test(id)) return null
    let kept = code
    const isShown = (text: string) => shownDescriptions.test(id) && text.startsWith('description')
    for (const [start, end] of [...documentationIn(this.parse(code))].reverse()) {
      if (isShown(code.slice(start, end))) continue
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
