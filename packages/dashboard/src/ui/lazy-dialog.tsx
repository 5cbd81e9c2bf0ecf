import { type ComponentType, lazy, Suspense, useEffect, useState } from 'react'

type LazyDialog<Props> = ComponentType<Props> & { load(): Promise<unknown> }

/**
 * A dialog or drawer whose code is loaded when it opens. Until it is there an empty dialog holds back the shortcuts,
 * because what a person types next is meant for the dialog.
 */
export function lazyDialog<Props extends object>(read: () => Promise<ComponentType<Props>>): LazyDialog<Props> {
  let ready: ComponentType<Props> | undefined
  const load = async () => {
    ready = await read()
    return { default: ready }
  }
  const Loaded = lazy(load) as unknown as ComponentType<Props>
  function Shown(props: Props) {
    // Code that is there opens in the same frame: an Escape right after it must not close the drawer behind.
    const [Dialog] = useState(() => ready ?? Loaded)
    return (
      <Suspense fallback={<div role="dialog" aria-label="Loading…" />}>
        <Dialog {...props} />
      </Suspense>
    )
  }
  return Object.assign(Shown, { load })
}

/**
 * Loads the code of a dialog ahead, so that a press opens it at once, also while the service is unreachable. If it is
 * unreachable already, the press loads it.
 */
export function usePreload(load: () => Promise<unknown>): void {
  useEffect(() => void load().catch(() => {}), [load])
}
