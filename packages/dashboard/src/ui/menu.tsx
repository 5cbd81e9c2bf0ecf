import { Menu as Base } from '@base-ui/react/menu'
import type { ReactNode } from 'react'
import { buttonClass } from './button.tsx'
import css from './choices.module.css'

interface MenuProps {
  name: ReactNode
  /** What the menu acts on, for screen readers: rows repeat their menus. */
  about?: ReactNode
  items: readonly { name: ReactNode; isDangerous?: boolean; isDisabled?: boolean; onClick(): void }[]
}

/** Actions behind one button. Arrow keys and first letters move, Enter acts, Escape closes. */
export function Menu({ name, about, items }: MenuProps) {
  return (
    <Base.Root>
      <Base.Trigger className={buttonClass()}>
        {name} <span aria-hidden="true">▾</span>
        {about !== undefined && <span className="only-read"> {about}</span>}
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner align="end" sideOffset={4} className={css.positioner}>
          <Base.Popup className={css.popup}>
            {items.map((item, index) => (
              <Base.Item
                key={index}
                className={`${css.item} ${item.isDangerous ? 'breach' : ''}`}
                disabled={item.isDisabled ?? false}
                onClick={item.onClick}
              >
                {item.name}
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}
