import { type ComponentType, lazy, Suspense, useEffect } from 'react'

/**
 * A dialog or drawer whose code is loaded when it opens. Until it is there an empty dialog holds back the shortcuts,
 * because what a person types next is meant for the dialog.
 */
export function lazyDialog<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  const Loaded = lazy(async () => ({ default: await load() })) as unknown as ComponentType<Props>
  return (props) => (
    <Suspense fallback={<div role="dialog" aria-label="Loading…" />}>
      <Loaded {...props} />
    </Suspense>
  )
}

/**
 * Loads the code of a dialog ahead, so that a press opens it at once, also while the service is unreachable. If it is
 * unreachable already, the press loads it.
 */
export function usePreload(load: () => Promise<unknown>): void {
  useEffect(() => void load().catch(() => {}), [load])
}
