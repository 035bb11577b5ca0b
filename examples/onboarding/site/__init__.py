"""The bundled places' web sites, served on loopback: real pages and pictures, and one place where everything goes
wrong.

`serve()` is all that others need. Pages lie in `content/`, one folder a place; `drawings` paints the pictures,
`troubles` holds the answers that no healthy site gives.
"""

from onboarding.site.server import BundledSite, serve

__all__ = ["BundledSite", "serve"]
