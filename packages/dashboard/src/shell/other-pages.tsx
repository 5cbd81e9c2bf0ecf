import type { ErrorComponentProps } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Button } from '../ui/button.tsx'
import { Fault, useTitle } from '../ui/panel.tsx'
import css from './alone.module.css'
import { WardlineMark } from './wardline-mark.tsx'

/** A page without navigation. */
export function Alone({ title, children }: { title: string; children: ReactNode }) {
  useTitle(title)
  return (
    <main className={css.alone}>
      <p className={css.brand}>
        <WardlineMark /> Wardline
      </p>
      <h1>{title}</h1>
      {children}
    </main>
  )
}

export const UnknownPage = () => (
  <Alone title="Page not found">
    <p className="quiet">
      <a href="/">Overview</a> · <a href="/docs">API reference</a>
    </p>
  </Alone>
)

export const FaultPage = ({ error, reset }: ErrorComponentProps) => (
  <Alone title="This page failed to load">
    <Fault of={error} />
    <p>
      <Button onClick={reset}>Retry</Button>
    </p>
  </Alone>
)
