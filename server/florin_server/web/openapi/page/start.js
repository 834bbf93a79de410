// Show the newest stable document; the top bar switches between versions.
fetch("/versions")
  .then((answer) => answer.json())
  .then(({ stable, preview }) => {
    const names = [...stable, ...preview].sort().reverse();
    window.ui = SwaggerUIBundle({
      dom_id: "#docs",
      urls: names.map((name) => ({ name, url: `/spec/${name}/openapi.json` })),
      "urls.primaryName": stable[stable.length - 1],
      presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
      layout: "StandaloneLayout",
      deepLinking: true,
      // the validator is a service of another site
      validatorUrl: null,
    });
  });
