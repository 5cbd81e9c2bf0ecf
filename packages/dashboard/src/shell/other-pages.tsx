import type { ErrorComponentProps } from '@tanstack/react-router'
import { sentenceOf } from '../service/client.ts'
import { WardlineMark } from './wardline-mark.tsx'

export function UnknownPage() {
  return (
    <main className="alone">
      <p className="brand">
        <WardlineMark /> Wardline
      </p>
      <h1>Nothing is at this address.</h1>
      <p className="quiet">
        <a href="/">Open the overview</a> or the <a href="/docs">API reference</a>.
      </p>
    </main>
  )
}

export function FaultPage({ error, reset }: ErrorComponentProps) {
  return (
    <main className="alone">
      <p className="brand">
        <WardlineMark /> Wardline
      </p>
      <h1>This page cannot be shown.</h1>
      <p role="alert">{sentenceOf(error)}</p>
      <p>
        <button type="button" onClick={reset}>
          Retry
        </button>
      </p>
    </main>
  )
}
