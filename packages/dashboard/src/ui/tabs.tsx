import { Tabs as Base } from '@base-ui/react/tabs'
import type { ReactNode } from 'react'
import css from './tabs.module.css'

interface TabsProps<Value extends string> {
  label: string
  value: Value
  tabs: readonly { value: Value; name: ReactNode; note?: ReactNode }[]
  onChange(value: NoInfer<Value>): void
  /** The panel of the chosen tab. */
  children: ReactNode
}

/** Views of one subject, one at a time. Arrow keys move between the tabs, Enter opens one. */
export function Tabs<Value extends string>({ label, value, tabs, onChange, children }: TabsProps<Value>) {
  return (
    <Base.Root value={value} onValueChange={onChange} className={css.root}>
      <Base.List aria-label={label} className={css.list}>
        {tabs.map((tab) => (
          <Base.Tab key={tab.value} value={tab.value} className={css.tab}>
            {tab.name} {tab.note !== undefined && tab.note !== null && <b>{tab.note}</b>}
          </Base.Tab>
        ))}
      </Base.List>
      <Base.Panel value={value} className="stack" tabIndex={-1}>
        {children}
      </Base.Panel>
    </Base.Root>
  )
}
